"""Parses the keys of a store strictly: whatever is not exactly a key of its table counts as damaged."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import POSITION_BYTES, Position, decode_position
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import check_name

TABLES: dict[str, tuple[bytes, ...]] = {
    "topics": (keys.METADATA,),
    "messages": (keys.MESSAGE,),
    "payloads": (keys.PAYLOAD,),
    "transactions": (keys.OPEN, keys.FINISHED),
    "producers": (keys.PRODUCER, keys.FENCE),
    "subscriptions": (keys.SUBSCRIPTION,),
    "readers": (keys.READER,),
    "indexes": (keys.LOG_END, keys.MARK, keys.EXPIRY, keys.REFERENCE, keys.REMOVED, keys.LONG),
    "service": (keys.SERVICE,),
}
"""The tables by the names people use, and the letters their keys begin with."""

TABLE_OF = {letter: table for table, letters in TABLES.items() for letter in letters}
BY_TOPIC = frozenset(TABLE_OF) - {keys.OPEN, keys.FINISHED, keys.LONG, keys.SERVICE}
"""Tables whose keys begin with a topic."""

_GENERATION_BYTES, _NUMBER_BYTES, _LENGTH_BYTES = 4, 8, 2


class Undecodable(ValueError):
    """A key or value is not one of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The parts of a key; None for parts that keys of its table lack."""

    letter: bytes
    topic: tuple[str, str] | None = None
    """Namespace and name."""
    generation: int | None = None
    position: Position | None = None
    """The position of a message or payload row."""
    pointer: int | None = None
    name: str | None = None
    """The name of a reader, a subscription, a producer, or a fact of the service."""
    epoch: int | None = None
    first: int | None = None
    """The first number of a producer's page."""
    expires_ms: int | None = None

    @property
    def table(self) -> str:
        return TABLE_OF[self.letter]


def parse(key: bytes) -> RowKey:
    """Raises: Undecodable with what is wrong."""
    letter = key[:1]
    if letter not in TABLE_OF:
        raise Undecodable("no table has keys with this first letter")
    if letter not in BY_TOPIC:
        if letter == keys.SERVICE:
            return RowKey(letter=letter, name=_text(key[1:], "name"))
        return RowKey(letter=letter, pointer=_number(_exactly(key[1:], _NUMBER_BYTES, "pointer")))
    namespace, colon, rest = key[1:].partition(b":")
    name, other_colon, rest = rest.partition(b":")
    if not (colon and other_colon):
        raise Undecodable("the key names no topic")
    topic = (_name(namespace), _name(name))
    if letter in (keys.METADATA, keys.LOG_END):
        _exactly(rest, 0, "rest after the topic")
        return RowKey(letter=letter, topic=topic)
    generation = _number(_at_least(rest, _GENERATION_BYTES, "generation")[:_GENERATION_BYTES])
    return _of_generation(letter, topic, generation, rest[_GENERATION_BYTES:])


def _of_generation(letter: bytes, topic: tuple[str, str], generation: int, rest: bytes) -> RowKey:
    if letter in (keys.MESSAGE, keys.MARK, keys.REFERENCE):
        return RowKey(letter=letter, topic=topic, generation=generation, position=_position(rest))
    if letter == keys.PAYLOAD:
        _exactly(rest, _NUMBER_BYTES + POSITION_BYTES, "pointer and position")
        pointer, position = _number(rest[:_NUMBER_BYTES]), _position(rest[_NUMBER_BYTES:])
        return RowKey(letter=letter, topic=topic, generation=generation, pointer=pointer, position=position)
    if letter == keys.EXPIRY:
        _exactly(rest, _NUMBER_BYTES + POSITION_BYTES, "expiry and position")
        expires_ms, position = _number(rest[:_NUMBER_BYTES]), _position(rest[_NUMBER_BYTES:])
        return RowKey(letter=letter, topic=topic, generation=generation, expires_ms=expires_ms, position=position)
    if letter == keys.REMOVED:
        _exactly(rest, 0, "rest after the generation")
        return RowKey(letter=letter, topic=topic, generation=generation)
    if letter in (keys.READER, keys.SUBSCRIPTION):
        return RowKey(letter=letter, topic=topic, generation=generation, name=_name(rest))
    length = _number(_at_least(rest, _LENGTH_BYTES, "length of the producer's id")[:_LENGTH_BYTES])
    rest = rest[_LENGTH_BYTES:]
    producer, rest = _text(_at_least(rest, length, "producer's id")[:length], "producer's id"), rest[length:]
    if letter == keys.FENCE:
        _exactly(rest, 0, "rest after the producer's id")
        return RowKey(letter=letter, topic=topic, generation=generation, name=producer)
    epoch, first = rest[:_NUMBER_BYTES], rest[_NUMBER_BYTES:]
    _exactly(epoch, _NUMBER_BYTES, "epoch")
    if first:
        _exactly(first, _NUMBER_BYTES, "first number")
    return RowKey(
        letter=letter, topic=topic, generation=generation, name=producer, epoch=_number(epoch), first=_number(first)
    )


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _position(raw: bytes) -> Position:
    return decode_position(_exactly(raw, POSITION_BYTES, "position"))


def _exactly(raw: bytes, count: int, what: str) -> bytes:
    if len(raw) != count:
        raise Undecodable(f"key: {what} has {len(raw)} bytes instead of {count}")
    return raw


def _at_least(raw: bytes, count: int, what: str) -> bytes:
    if len(raw) < count:
        raise Undecodable(f"key: {what} is cut short")
    return raw


def _text(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Undecodable(f"key: {what} is not UTF-8") from None


def _name(raw: bytes) -> str:
    try:
        return check_name("name", _text(raw, "name"))
    except Refused as error:
        raise Undecodable(f"key: {error.message}") from None
