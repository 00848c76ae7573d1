"""The walk over the tables of a store: a line a row, or counts; what is damaged is said, and the walk goes on.

Where the engine itself cannot read on, it goes on behind the topic it was in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.dump import row_key, row_value
from fairlead_messaging.server.dump.row_key import BY_TOPIC, TABLE_OF, RowKey, Undecodable
from fairlead_messaging.server.dump.row_value import Fields, RowContext
from fairlead_messaging.server.dump.selection import DumpSelection
from fairlead_messaging.server.log import keys, topic
from fairlead_messaging.server.transactions import transaction

HIGHEST_KEY = b"\xff" * 32


class DumpedStore(Protocol):
    """A store that does not change."""

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]: ...


@dataclass(slots=True)
class Count:
    """Of one table of one generation; ``bytes`` are those of keys and values."""

    rows: int = 0
    bytes: int = 0
    undecodable: int = 0


def context(store: DumpedStore, body_bytes_max: int = 0) -> RowContext:
    """What the meaning of rows depends on; a damaged record of a topic or a transaction is passed over here."""
    open_states: dict[int, str] = {}
    generations: dict[tuple[str, str], int] = {}

    def note_open(key: RowKey, value: bytes) -> None:
        found = transaction.decode(value)
        open_states[found.pointer] = found.state.value

    def note_topic(key: RowKey, value: bytes) -> None:
        assert key.topic is not None
        generations[key.topic] = topic.decode(*key.topic, value).generation

    notes: tuple[tuple[bytes, Callable[[RowKey, bytes], None]], ...] = (
        (keys.OPEN, note_open), (keys.METADATA, note_topic),
    )  # fmt: skip
    for letter, note in notes:
        try:
            for raw_key, value in store.scan(letter, keys.above(letter)):
                try:
                    note(row_key.parse(raw_key), value)
                except ValueError:  # msgspec's errors are such, and so is Undecodable
                    continue
        except StorageError:
            continue
    return RowContext(open_states=open_states, generations=generations, body_bytes_max=body_bytes_max)


def lines(
    store: DumpedStore, selection: DumpSelection, meaning: RowContext, *, raw_keys: bool = False
) -> Generator[Fields]:
    """Each row that was asked for; one that is damaged has ``undecodable`` (why) and its raw ``key`` in hex."""
    for key, _, shown in _walk(store, selection, meaning):
        if raw_keys or "undecodable" in shown:
            shown["key"] = key.hex()
        yield shown


def counts(store: DumpedStore, selection: DumpSelection, meaning: RowContext) -> Generator[Fields]:
    """How many rows and bytes each table has, by topic and generation."""
    found: dict[tuple[str, str, int | None], Count] = {}
    for key, value, shown in _walk(store, selection, meaning):
        place = (shown["table"], shown.get("topic", ""), shown.get("generation"))
        count = found.setdefault(place, Count())
        count.rows += 1
        count.bytes += len(key) + len(value)
        count.undecodable += "undecodable" in shown
    for (table, name, generation), count in found.items():
        where: Fields = {"table": table}
        if name:
            where["topic"] = name
        if generation is not None:
            where["generation"] = generation
        yield where | {"rows": count.rows, "bytes": count.bytes, "undecodable": count.undecodable}


def _walk(store: DumpedStore, selection: DumpSelection, meaning: RowContext) -> Iterator[tuple[bytes, bytes, Fields]]:
    for letter in selection.letters():
        low, high = selection.range(letter)
        yield from _table(store, letter, low, high, selection, meaning)
    if selection.is_everything:
        yield from _strays(store)


def _table(
    store: DumpedStore, letter: bytes, low: bytes, high: bytes, selection: DumpSelection, meaning: RowContext
) -> Iterator[tuple[bytes, bytes, Fields]]:
    while low < high:
        last = b""
        try:
            for key, value in store.scan(low, high):
                last = key
                shown = _shown(letter, key, value, selection, meaning)
                if shown is not None:
                    yield key, value, shown
            return
        except StorageError as error:
            yield last, b"", {"table": TABLE_OF[letter], "undecodable": f"after this key: {error}"}
        low = max(_behind_topic(last), low) if last and letter in BY_TOPIC else high


def _shown(letter: bytes, key: bytes, value: bytes, selection: DumpSelection, meaning: RowContext) -> Fields | None:
    """None: it was not asked for."""
    shown: Fields = {"table": TABLE_OF[letter]}
    try:
        parsed = row_key.parse(key)
        if not selection.may_match(parsed):
            return None
        if parsed.topic is not None:
            shown["topic"] = "/".join(parsed.topic)
        if parsed.generation is not None:
            shown["generation"] = parsed.generation
        found = row_value.decode(parsed, value, meaning)
        if letter in (keys.OPEN, keys.FINISHED) and not selection.began_in_time(transaction.decode(value).started_ms):
            return None
        return found if selection.matches(found) else None
    except Undecodable as error:
        return shown | {"undecodable": str(error), "value_bytes": len(value)}


def _strays(store: DumpedStore) -> Iterator[tuple[bytes, bytes, Fields]]:
    """Rows of no table."""
    letters = sorted(TABLE_OF)
    gaps = zip((b"", *map(keys.above, letters)), (*letters, HIGHEST_KEY), strict=True)
    for low, high in gaps:
        shown: dict[str, Any] = {"table": "none", "undecodable": "no table has keys that begin so"}
        try:
            for key, value in store.scan(low, high):
                yield key, value, {**shown, "value_bytes": len(value)}
        except StorageError as error:
            yield low, b"", {"table": "none", "undecodable": f"after this key: {error}"}


def _behind_topic(key: bytes) -> bytes:
    """The first place behind everything of the topic this key is of, in its table."""
    names = key.split(b":", 2)
    return keys.above(b":".join(names[:2]) + b":") if len(names) == 3 else HIGHEST_KEY
