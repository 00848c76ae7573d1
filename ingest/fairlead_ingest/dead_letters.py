"""Dead letters: their export as JSON lines, how they are selected, which may be repaired, and the result of a repair.

    {"topic": "ns/a", "id": "0000…", "published_at": "…", "code": "misfit", "fields": ["t"], "error": "…",
     "payload": "{…}"}

``payload`` is the text as published; a payload that is not UTF-8 is in ``payload_base64`` instead. In an edited line,
the payload may also be an object, ``"payload": {"id": …}``. Only ``topic``, ``id`` and the payload are read back; the
other fields are optional.

A job commits a batch's dead letters before its rows. If it is killed in between, it repeats the batch, perhaps with
another schema, and a dead letter may then become a row. So only *settled* letters, at or before the table's committed
position of their topic, are repaired; the others belong to the job until it has committed their batch:

    the topic's position in the table's log     settled letters
    known                                       up to that position
    unknown, or derived only from rows          those written by a backfill (which moves no positions)
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.rows import unreadable
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.source.offsets import Offsets

LINE_BYTES_MAX = 64 * 1024 * 1024


class BadLine(ValueError):
    """A line that cannot be used; ``str()`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A letter with the payload that a person wrote for it."""

    topic: str
    id: str
    payload: bytes


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    id: str
    payload: msgspec.Raw = msgspec.Raw(b"")
    payload_base64: str | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_text = msgspec.json.Decoder(str).decode


def encode(letter: dict[str, Any]) -> bytes:
    """A row of the dead letters' table as one line, with its line end."""
    payload: bytes = letter["payload"] or b""
    plain: dict[str, Any] = {
        "topic": letter["_topic"],
        "id": letter["_id"],
        "published_at": letter["_published_at"],
        "code": letter.get("code"),
        "fields": letter.get("fields") or [],
        "error": letter.get("error"),
    }
    try:
        plain["payload"] = payload.decode()
    except UnicodeDecodeError:
        plain["payload_base64"] = base64.b64encode(payload).decode()
    return msgspec.json.encode(plain) + b"\n"


def decode(line: bytes) -> Edited:
    """Read one line of an edited export. Raises ``BadLine``."""
    try:
        found = _decode(line)
        text = bytes(found.payload)
        if (text == b"") == (found.payload_base64 is None):
            raise BadLine("give either `payload` or `payload_base64`")
        if found.payload_base64 is not None:
            return Edited(topic=found.topic, id=found.id, payload=base64.b64decode(found.payload_base64, validate=True))
        if text[:1] == b"{":
            return Edited(topic=found.topic, id=found.id, payload=text)
        if text[:1] != b'"':
            raise BadLine("`payload` must be a string or an object")
        return Edited(topic=found.topic, id=found.id, payload=_decode_text(text).encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadLine(unreadable.reason(line, error)) from None
    except binascii.Error:
        raise BadLine("`payload_base64` is not valid Base64") from None


UNKNOWN: Final = "unknown"
"""Stands for the missing code of letters that an older version wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """Which letters to use; an empty set selects all. Published from ``since_ms``, before ``until_ms`` (Unix time)."""

    codes: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def condition(self) -> pc.Expression:
        """A filter on the columns whose bounds the table's log has, so that a scan can skip whole files."""
        found = pc.scalar(True)
        for name, values in (("_topic", self.topics), ("_id", self.ids)):
            if values:
                found &= pc.field(name).isin(pa.array(sorted(values), pa.string()))
        if self.since_ms is not None:
            found &= pc.field("_published_at") >= pa.scalar(self.since_ms * 1000, TIMESTAMP)
        if self.until_ms is not None:
            found &= pc.field("_published_at") < pa.scalar(self.until_ms * 1000, TIMESTAMP)
        return found

    def with_codes(self, letters: pa.Table) -> pa.Table:
        """The letters that have one of the selected codes."""
        if not self.codes:
            return letters
        codes = pc.fill_null(letters["code"], UNKNOWN)
        return letters.filter(pc.is_in(codes, value_set=pa.array(sorted(self.codes), pa.string())))


def mask(letters: pa.Table, reached: Offsets) -> pa.Array:
    """For each of ``letters`` (columns ``_topic``, ``_id``, ``_batch``), whether it is settled and may be repaired."""
    topics = pc.unique(letters["_topic"]).to_pylist()
    found = pa.array([False] * letters.num_rows, pa.bool_())
    for topic in topics:
        is_topic = pc.equal(letters["_topic"], topic).combine_chunks()
        offset = reached.topics.get(topic)
        within = pc.less_equal(letters["_id"], "" if offset is None else offset.position)
        if offset is None or not offset.generation:
            within = pc.or_(within, pc.less(pc.fill_null(letters["_batch"], 0), 0))
        found = pc.or_(found, pc.and_(is_topic, within.combine_chunks()))
    return found


EXAMPLES_MAX: Final = 10
ERROR_CHARS_MAX: Final = 300
NOT_LET_THROUGH: Final = "left_out"
"""Code of a letter that a transform filters out, or that is a gap record and cannot be a row."""
FAILED: Final = "failed"
"""Code of a letter for which the repair function or a transform raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A letter that was not repaired, and why; ``code`` is a dead letter's code or one of the two above."""

    topic: str
    id: str
    code: str
    fields: tuple[str, ...] = ()
    error: str


@dataclass(slots=True)
class Tally:
    """The result of repairing the dead letters of one pipeline."""

    letters: int = 0
    """Open letters in the selection."""
    repaired: int = 0
    """Letters whose rows were added (in a dry run: would be added)."""
    there: int = 0
    """Letters whose rows were already in the table; they are now marked as repaired."""
    kept: int = 0
    """Letters that the repair function left unchanged."""
    unsettled: int = 0
    """Letters whose batch is not committed yet."""
    still: Counter[str] = field(default_factory=Counter)
    """Number of letters that still do not fit, by code."""
    examples: list[Still] = field(default_factory=list)
    unknown: int = 0
    """Lines of the edited file that name no dead letter of this table."""

    def stays(self, letter: Still) -> None:
        """Count a letter that was not repaired."""
        self.still[letter.code] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(letter)

    @property
    def is_done(self) -> bool:
        """Every selected letter is repaired."""
        return not (self.unsettled or self.unknown or sum(self.still.values()))

    def plain(self) -> dict[str, Any]:
        """The result as plain values for JSON."""
        return {
            "letters": self.letters,
            "repaired": self.repaired,
            "already_there": self.there,
            "kept": self.kept,
            "unsettled": self.unsettled,
            "unknown": self.unknown,
            "still": dict(sorted(self.still.items())),
            "examples": [
                {
                    "topic": each.topic,
                    "id": each.id,
                    "code": each.code,
                    "fields": list(each.fields),
                    "error": each.error[:ERROR_CHARS_MAX],
                }
                for each in self.examples
            ],
        }
