"""Why ingest stops, named by code: the code is the first word, so that it survives Spark's wrapping of exceptions.

A query that fails inside Spark reaches us as text only; ``find_code`` takes the code and its sentence out again.
"""

from __future__ import annotations

import re

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

# What waiting may heal; everything else stops the program until someone has looked.
TEMPORARY = frozenset(
    {UNREACHABLE, DISK_FULL, CHECKPOINT_TAKEN, SCHEMA_GREW, WORKER_LATE, READ_ONLY, STORE_AWAY, CATALOG_AWAY}
)

SENTENCE_CHARS_MAX = 2000
# Spark gives a Python process ten seconds to start, fixed; a busy machine may need more, and is busy for a while only.
_TOO_SLOW = ("failed to connect back", "waiting for the Python worker to connect", "CANNOT_OPEN_SOCKET")
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_READ_ONLY = ("Read-only file system",)
_NOT_OURS = ("Permission denied", "PermissionDenied")
# What Spark says of a machine that runs its tasks, and what that means there; the first that is found counts.
_UNFIT = (
    (
        "PYTHON_VERSION_MISMATCH",
        "an executor's Python is of another version than this program's, PYSPARK_PYTHON names it",
    ),
    (
        "No module named 'fairlead",
        f"{distribution.with_extra('ingest')} is not installed in an executor's Python, PYSPARK_PYTHON names it",
    ),
    ("No module named 'pyspark", "pyspark is not installed in an executor's Python, PYSPARK_PYTHON names it"),
    ("Cannot run program", "an executor's machine lacks the Python that PYSPARK_PYTHON names"),
    ("local class incompatible", "the cluster runs another version of Spark than this program"),
)
# The second is two queries that make the checkpoint at the same moment, the third two that plan the same batch.
_SHARED_CHECKPOINT = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "FileAlreadyExistsException",
    "Multiple streaming queries are concurrently using",
)

# A sentence ends with its line; ``¶`` ends it where someone else's text follows on the same line.
# After the indented lines of a trace comes what was raised, up to an empty line or to Java's own trace.
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+((?:[^ \t\n].*(?:\n|\Z))+)")
# delta-rs writes each cause of an error on a line of its own, in colours; the last is the one people need.
_CAUSE = re.compile("\\s*\\n\\s*(?:\x1b\\[[0-9;]*m)*\u21b3(?:\x1b\\[[0-9;]*m)*\\s*")
_CODED = re.compile(r"\b(FAIRLEAD_[A-Z_]+): ([^\n¶]*)")


class Stop(Permanent):
    """Going on would lose or repeat rows; someone has to decide. ``str()`` begins with the code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}", code=code)
        self.sentence = message


class Wait(Temporary):
    """It did not work now and may by itself later; nothing is lost by waiting. ``str()`` begins with the code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.sentence = message


class Fault(Temporary):
    """It did not work, and nothing of ours knows why; tried again, but not for ever. ``str()`` is the whole reason."""


def explain(text: str) -> tuple[str | None, str]:
    """(code, sentence) for the text of an error not ours; no code where waiting or deciding is not known to help.

    Java and the file system below it have no codes of ours, but some of their texts mean what ours do.
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
        return CHECKPOINT_TAKEN, f"another job uses this checkpoint: {sentence}"
    if any(words in text for words in _TOO_SLOW):
        return WORKER_LATE, f"the machine is too busy to start a Python process in time: {sentence}"
    return None, sentence


def _sentence(text: str) -> str:
    """What a trace is about: what Python raised, whole; else the last line that names an error."""
    raised = _RAISED.findall(text)
    if raised:
        return re.sub(r"\s+", " ", str(raised[-1])).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tail = [line for line in lines if "Error" in line or "Exception" in line]
    return tail[-1] if tail else lines[0] if lines else ""


def _line_with(words: str, text: str) -> str:
    """What follows ``words`` on their line, with them."""
    return text[text.index(words) :].splitlines()[0].strip()[:SENTENCE_CHARS_MAX]


def find_code(text: str) -> tuple[str, str] | None:
    """The first coded sentence in ``text`` as (code, sentence), or None when the failure is none of ours."""
    found = _CODED.search(text)
    return (found[1], found[2].strip()) if found else None
