"""Dead letters: the line of JSON in which one is exported and edited, which are meant, which may be repaired, and the
outcome of a repair.

    {"topic": "ns/a", "id": "0000…", "published_at": "…", "code": "misfit", "fields": ["t"], "error": "…",
     "payload": "{…}"}

``payload`` is the text as it was published; a payload that is not UTF-8 is ``payload_base64`` instead. Whoever edits a
line may also write the message as an object, ``"payload": {"id": …}``. When a line is read again, only ``topic``,
``id`` and the payload count; the rest may be left out.

A job commits a batch's dead letters before its rows. If it is killed in between it makes the batch again, perhaps with
another schema, and what was a dead letter may then be a row. So only *settled* letters, which lie within the table's
own positions, are repaired; the others belong to the job until its batch is in:

    topic's place in the table's log     settled
    known                                up to that place
    unknown, or only rows say it         what a backfill brought (it moves no positions)
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

from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.source.offsets import Offsets

LINE_BYTES_MAX = 64 * 1024 * 1024
_ID_CHARS_MAX = 200


class BadLine(ValueError):
    """``str()`` says what is wrong with the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A letter's payload as a person wants it."""

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
    """One line, its end included, of a row of the dead letters' table."""
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
    """Raises ``BadLine``."""
    try:
        found = _decode(line)
        text = bytes(found.payload)
        if (text == b"") == (found.payload_base64 is None):
            raise BadLine("give `payload` or `payload_base64`, and not both")
        if found.payload_base64 is not None:
            return Edited(topic=found.topic, id=found.id, payload=base64.b64decode(found.payload_base64, validate=True))
        if text[:1] == b"{":
            return Edited(topic=found.topic, id=found.id, payload=text)
        if text[:1] != b'"':
            raise BadLine("`payload` is a text or an object")
        return Edited(topic=found.topic, id=found.id, payload=_decode_text(text).encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadLine(str(error)) from None
    except binascii.Error:
        raise BadLine("`payload_base64` is no base64") from None


UNKNOWN: Final = "unknown"
"""The code of what an older version wrote, which had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """Empty: all.  Times are milliseconds since 1970 of publishing: from ``since_ms``, before ``until_ms``."""

    codes: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def condition(self) -> pc.Expression:
        """What a table's files may be passed over by: columns for which the log has bounds of every file."""
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
        """Those that have one of the codes; what an older version wrote has none."""
        if not self.codes:
            return letters
        codes = pc.fill_null(letters["code"], UNKNOWN)
        return letters.filter(pc.is_in(codes, value_set=pa.array(sorted(self.codes), pa.string())))


def mask(letters: pa.Table, reached: Offsets) -> pa.Array:
    """For each of ``letters`` (``_topic``, ``_id``, ``_batch``) whether it may be repaired."""
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
"""Of a letter that a transform made no row of, or that is no row by what it is."""
FAILED: Final = "failed"
"""Of a letter whose repair function, or whose transform, raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A letter that stays one, and why; ``code``: a dead letter's, or one of the two above."""

    topic: str
    id: str
    code: str
    fields: tuple[str, ...] = ()
    error: str


@dataclass(slots=True)
class Tally:
    """Of one pipeline."""

    letters: int = 0
    """Open letters of the selection."""
    repaired: int = 0
    """Their rows are in the table now (on a dry run: would be)."""
    there: int = 0
    """The table had their rows already; they are marked now."""
    kept: int = 0
    """The repair function said to leave them as they are."""
    unsettled: int = 0
    """Their batch is not in the table yet."""
    still: Counter[str] = field(default_factory=Counter)
    """By code: those that do not fit as they are now."""
    examples: list[Still] = field(default_factory=list)
    unknown: int = 0
    """Lines of the edited file that name no dead letter of this table."""

    def stays(self, letter: Still) -> None:
        """One more that is still a letter."""
        self.still[letter.code] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(letter)

    @property
    def is_done(self) -> bool:
        """All that was asked for is in the table."""
        return not (self.unsettled or self.unknown or sum(self.still.values()))

    def plain(self) -> dict[str, Any]:
        """For JSON."""
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
