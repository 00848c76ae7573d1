"""Errors of ingest and their codes.

The code is the first word of the message: a query that fails inside Spark reaches us only as text, in which
``find_code`` finds the code and its sentence again.
"""

from __future__ import annotations

import os
import re
import traceback

from fairlead_wire import distribution
from fairlead_wire.errors import Permanent, Temporary

UNREACHABLE = "FAIRLEAD_UNREACHABLE"
EXPIRED = "FAIRLEAD_OFFSET_EXPIRED"
RECREATED = "FAIRLEAD_TOPIC_RECREATED"
OTHER_SERVICE = "FAIRLEAD_OTHER_SERVICE"
TABLE_TAKEN = "FAIRLEAD_TABLE_TAKEN"
TABLE_BEHIND = "FAIRLEAD_TABLE_BEHIND"
TABLE_UNFIT = "FAIRLEAD_TABLE_UNFIT"
DISK_FULL = "FAIRLEAD_DISK_FULL"
CHECKPOINT_TAKEN = "FAIRLEAD_CHECKPOINT_TAKEN"
SCHEMA_BROKEN = "FAIRLEAD_SCHEMA_BROKEN"
SCHEMA_GREW = "FAIRLEAD_SCHEMA_GREW"
WORKER_LATE = "FAIRLEAD_WORKER_LATE"
TASK_REPEATED = "FAIRLEAD_TASK_REPEATED"
BATCH_UNKNOWN = "FAIRLEAD_BATCH_UNKNOWN"
TRANSACTION_LOST = "FAIRLEAD_TRANSACTION_LOST"
BAD_OPTION = "FAIRLEAD_BAD_OPTION"
BAD_CHECKPOINT = "FAIRLEAD_BAD_CHECKPOINT"
QUERY_FAILED = "FAIRLEAD_QUERY_FAILED"
READ_ONLY = "FAIRLEAD_READ_ONLY"
STORE_AWAY = "FAIRLEAD_STORE_AWAY"
STORE_DENIED = "FAIRLEAD_STORE_DENIED"
STORE_UNFIT = "FAIRLEAD_STORE_UNFIT"
CATALOG_AWAY = "FAIRLEAD_CATALOG_AWAY"
CATALOG_DENIED = "FAIRLEAD_CATALOG_DENIED"
CATALOG_UNFIT = "FAIRLEAD_CATALOG_UNFIT"
WORKER_UNFIT = "FAIRLEAD_WORKER_UNFIT"
SPARK_AWAY = "FAIRLEAD_SPARK_AWAY"

# Errors that may pass by themselves; any other one stops the pipeline until a person has looked at it.
TEMPORARY = frozenset(
    {UNREACHABLE, DISK_FULL, CHECKPOINT_TAKEN, SCHEMA_GREW, WORKER_LATE, READ_ONLY, STORE_AWAY, CATALOG_AWAY}
)

SENTENCE_CHARS_MAX = 2000
# Spark allows a Python process ten seconds to start, which cannot be configured; a busy machine may need longer.
_TOO_SLOW = ("failed to connect back", "waiting for the Python worker to connect", "CANNOT_OPEN_SOCKET")
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_READ_ONLY = ("Read-only file system",)
_NOT_OURS = ("Permission denied", "PermissionDenied")
# Texts in Spark's errors about an executor's machine, and what they mean; the first match counts.
_UNFIT = (
    (
        "PYTHON_VERSION_MISMATCH",
        "an executor's Python (PYSPARK_PYTHON) has another version than this program's",
    ),
    (
        "No module named 'fairlead",
        f"{distribution.with_extra('ingest')} is not installed in an executor's Python (PYSPARK_PYTHON)",
    ),
    ("No module named 'pyspark", "pyspark is not installed in an executor's Python (PYSPARK_PYTHON)"),
    ("Cannot run program", "an executor's machine does not have the Python that PYSPARK_PYTHON names"),
    ("local class incompatible", "the cluster runs another version of Spark than this program"),
)
# The second appears when two queries create the checkpoint at once, the third when two plan the same batch.
_SHARED_CHECKPOINT = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "FileAlreadyExistsException",
    "Multiple streaming queries are concurrently using",
)

# A coded sentence ends at the end of its line, or at ``¶`` where other text follows on the same line.
# In a Python traceback, the exception follows the indented lines, up to an empty line or Java's own trace.
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+((?:[^ \t\n].*(?:\n|\Z))+)")
# delta-rs writes each cause of an error on its own coloured line; the last one is the useful one.
_CAUSE = re.compile("\\s*\\n\\s*(?:\x1b\\[[0-9;]*m)*\u21b3(?:\x1b\\[[0-9;]*m)*\\s*")
_CODED = re.compile(r"\b(FAIRLEAD_[A-Z_]+): ([^\n¶]*)")


class Stop(Permanent):
    """Continuing would lose or repeat rows, so a person has to decide. ``str()`` begins with the code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}", code=code)
        self.sentence = message


class Wait(Temporary):
    """A failure that may pass by itself; waiting loses nothing. ``str()`` begins with the code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.sentence = message


class Fault(Temporary):
    """A failure of unknown cause, retried a limited number of times. ``str()`` is the whole reason."""


def no_table(table: object, why: str = "") -> Stop:
    """The error of a command about a table that does not exist."""
    because = f": {why}" if why else ""
    return Stop(TABLE_UNFIT, f"{table}: there is no table here{because}; has the job run? otherwise correct `table`")


def not_ours(table: object, kind: str) -> Stop:
    """The error about a table of the right format whose layout a job would not have made."""
    return Stop(
        TABLE_UNFIT,
        f"{table}: {kind} table that this program did not create (it is not partitioned by _topic, _date); choose"
        " another path",
    )


def explain(text: str) -> tuple[str | None, str]:
    """The code and sentence for the text of any error; the code is None if the cause is unknown.

    Errors of Java and of the file system have no codes of ours, but some of their texts mean the same.
    """
    text = _CAUSE.sub(": ", text)
    coded = find_code(text)
    if coded is not None:
        return coded
    sentence = _sentence(text)[:SENTENCE_CHARS_MAX]
    for words, meaning in _UNFIT:
        if words in text:
            return WORKER_UNFIT, f"{meaning}: {_line_with(words, text)}"
    if any(words in text for words in _NO_ROOM):
        return DISK_FULL, sentence
    if any(words in text for words in _READ_ONLY):
        return READ_ONLY, sentence
    if any(words in text for words in _NOT_OURS):
        remedy = "let this program's user write into the folders of table and checkpoint"
        return TABLE_UNFIT, f"a file or folder refuses this program's user: {remedy}: {sentence}"
    if any(words in text for words in _SHARED_CHECKPOINT):
        return CHECKPOINT_TAKEN, f"another job uses this checkpoint; stop one of them: {sentence}"
    if any(words in text for words in _TOO_SLOW):
        return WORKER_LATE, "the machine is too busy to start a Python process in time"
    return None, sentence


def line_of(error: BaseException, file: str | None = None) -> str:
    """The innermost line of a traceback, or of its part in ``file``: `` (own.py line 7)``; "" if it has none."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if file is None or each.filename == file]
    return f" ({os.path.basename(frames[-1].filename)} line {frames[-1].lineno})" if frames else ""


def _sentence(text: str) -> str:
    """The essence of a traceback: the whole exception Python raised, else the last line that names an error."""
    raised = _RAISED.findall(text)
    if raised:
        return re.sub(r"\s+", " ", str(raised[-1])).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tail = [line for line in lines if "Error" in line or "Exception" in line]
    return tail[-1] if tail else lines[0] if lines else ""


def _line_with(words: str, text: str) -> str:
    """The rest of the line that begins with ``words``."""
    return text[text.index(words) :].splitlines()[0].strip()[:SENTENCE_CHARS_MAX]


def find_code(text: str) -> tuple[str, str] | None:
    """The first coded sentence in ``text`` as (code, sentence); None if there is none."""
    found = _CODED.search(text)
    return (found[1], found[2].strip()) if found else None
