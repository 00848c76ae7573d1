"""Codes survive what Spark does to exceptions."""

from __future__ import annotations

from fairlead_ingest import errors


def test_a_code_is_found_in_the_text_of_a_failed_query() -> None:
    """Spark wraps our exception in its own and in a trace; code and sentence come out again."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]\n"
        "Traceback (most recent call last):\n"
        "fairlead_ingest.errors.Wait: FAIRLEAD_UNREACHABLE: http://h:1 does not answer: refused\n SQLSTATE: XXKST"
    )
    assert errors.find_code(text) == (errors.UNREACHABLE, "http://h:1 does not answer: refused")


def test_a_failure_that_is_none_of_ours_has_no_code() -> None:
    """A killed worker, say."""
    assert errors.find_code("Python worker exited unexpectedly (crashed)") is None


def test_errors_begin_with_their_code() -> None:
    """So that they can be found at all."""
    assert errors.find_code(str(errors.Stop(errors.EXPIRED, "gone"))) == (errors.EXPIRED, "gone")
    assert errors.find_code(str(errors.Wait(errors.DISK_FULL, "full"))) == (errors.DISK_FULL, "full")
