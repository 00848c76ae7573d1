"""Codes survive what Spark does to exceptions."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors


def test_a_code_is_found_in_the_text_of_a_failed_query():
    """Spark wraps our exception in its own and in a trace; code and sentence come out again."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]\n"
        "Traceback (most recent call last):\n"
        "fairlead_ingest.errors.Wait: FAIRLEAD_UNREACHABLE: http://h:1 does not answer: refused\n SQLSTATE: XXKST"
    )
    assert errors.find_code(text) == (errors.UNREACHABLE, "http://h:1 does not answer: refused")


def test_a_failure_that_is_none_of_ours_has_no_code():
    assert errors.find_code("Python worker exited unexpectedly (crashed)") is None


def test_errors_begin_with_their_code():
    assert errors.find_code(str(errors.Stop(errors.EXPIRED, "gone"))) == (errors.EXPIRED, "gone")
    assert errors.find_code(str(errors.Wait(errors.DISK_FULL, "full"))) == (errors.DISK_FULL, "full")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[STREAM_FAILED] java.io.IOException: No space left on device", errors.DISK_FULL),
        ("Generic LocalFileSystem error: Disk quota exceeded (os error 122)", errors.DISK_FULL),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", errors.CHECKPOINT_TAKEN),
        ("FileAlreadyExistsException: Rename destination c/metadata already exists.", errors.CHECKPOINT_TAKEN),
        (
            "IllegalStateException: Multiple streaming queries are concurrently using file:/c/offsets.",
            errors.CHECKPOINT_TAKEN,
        ),
        ('Error: Os { code: 13, kind: PermissionDenied, message: "Permission denied" }', errors.TABLE_UNFIT),
        ("FAIRLEAD_TABLE_TAKEN: No space left on device is in the text of another reason", errors.TABLE_TAKEN),
        ("java.io.IOException: Python worker failed to connect back.", errors.WORKER_LATE),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
            errors.WORKER_UNFIT,
        ),
        ("ModuleNotFoundError: No module named 'fairlead_ingest'", errors.WORKER_UNFIT),
        ('java.io.IOException: Cannot run program "/opt/python": error=2, No such file', errors.WORKER_UNFIT),
        ("Python worker exited unexpectedly (crashed)", None),
    ],
)
def test_texts_of_java_and_the_disk_are_understood(text, code):
    assert errors.explain(text)[0] == code


def test_what_waits_for_a_person_says_the_remedy_and_nothing_twice():
    shared = "IllegalStateException: Multiple streaming queries are concurrently using file:/c/offsets."
    assert errors.explain(shared)[1] == f"another job uses this checkpoint; stop one of them: {shared}"
    late = errors.explain("java.io.IOException: Python worker failed to connect back.")[1]
    assert late == "the machine is too busy to start a Python process in time"


def test_the_last_line_that_names_an_error_is_the_sentence():
    text = "An error occurred while calling o1.start.\n: java.lang.Exception: outer\n  at here\nCaused by: Error: inner"
    assert errors.explain(text) == (None, "Caused by: Error: inner")
    assert len(errors.explain("Error: " + "x" * 5000)[1]) == errors.SENTENCE_CHARS_MAX


@pytest.mark.parametrize(
    "before", ["", "FAIRLEAD_DISK_FULL: /t/rows: ", "Traceback (most recent call last):\n  f()\nOSError: "]
)
def test_all_causes_of_an_error_of_the_table_are_shown(before):
    arrow = "\n          \x1b[31m\u21b3\x1b[0m "
    causes = ("Generic LocalFileSystem error", "Unable to open file /t/1.json", "Read-only file system (os error 30)")
    text = before + arrow.join(causes) + "\n"
    code, sentence = errors.explain(text)
    assert code == (errors.DISK_FULL if before.startswith("FAIR") else errors.READ_ONLY)
    assert sentence.endswith("error: Unable to open file /t/1.json: Read-only file system (os error 30)")
