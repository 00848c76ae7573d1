"""Walks the tables of a store and shows each row, or counts; it reports damage and continues.

If the engine itself cannot read on, the walk continues after the current topic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.dump import row_key, row_value
from fairlead_messaging.server.dump.row_key import BY_TOPIC, TABLE_OF, TABLES, RowKey, Undecodable
from fairlead_messaging.server.dump.row_value import Fields, RowContext
from fairlead_messaging.server.log import keys, topic
from fairlead_messaging.server.transactions import transaction

# --- Selecting rows.

_POSITIONED = frozenset([keys.MESSAGE, keys.MARK, keys.REFERENCE])
"""Tables ordered by position within a generation."""
_OF_TRANSACTIONS = frozenset([keys.MESSAGE, keys.PAYLOAD, keys.OPEN, keys.FINISHED, keys.REFERENCE, keys.LONG])
_WITH_TIME = frozenset([keys.MESSAGE, keys.PAYLOAD, keys.MARK, keys.EXPIRY, keys.REFERENCE])
_TRANSACTIONS = frozenset([keys.OPEN, keys.FINISHED])


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """Which rows to show: by default of all ``tables``.

    ``since_ms`` (inclusive) and ``until_ms`` (exclusive) are for the time at which a message was published, a payload
    written, or a transaction begun.
    """

    tables: tuple[str, ...] = ()
    topic: tuple[str, str] | None = None
    generation: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    transaction: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all rows are shown, even those of no table."""
        return self == DumpSelection()

    def letters(self) -> Iterator[bytes]:
        """The letters of the tables that may have matching rows, in the order in which they are shown."""
        for table in TABLES if not self.tables else self.tables:
            for letter in TABLES[table]:
                has_time = letter in _WITH_TIME or letter in _TRANSACTIONS
                if (
                    (self.topic is None or letter in BY_TOPIC or letter in _TRANSACTIONS)
                    and (self.generation is None or letter in BY_TOPIC)
                    and ((self.since_ms is None and self.until_ms is None) or has_time)
                    and (self.transaction is None or letter in _OF_TRANSACTIONS)
                ):
                    yield letter

    def range(self, letter: bytes) -> tuple[bytes, bytes]:
        """low ≤ key < high: all rows of one table that may match."""
        if letter not in BY_TOPIC:
            if self.transaction is not None and letter in _OF_TRANSACTIONS:
                key = letter + self.transaction.to_bytes(8, "big")
                return key, key + b"\x00"
            return letter, keys.above(letter)
        if self.topic is None:
            return letter, keys.above(letter)
        prefix = letter + keys.names(*self.topic)
        if self.generation is None or letter in (keys.METADATA, keys.LOG_END):
            return prefix, keys.above(prefix)
        prefix += self.generation.to_bytes(4, "big")
        if letter == keys.PAYLOAD and self.transaction is not None:
            prefix += self.transaction.to_bytes(8, "big")
        low, high = prefix, keys.above(prefix)
        if letter in _POSITIONED:
            low = low if self.since_ms is None else prefix + self.since_ms.to_bytes(8, "big")
            high = high if self.until_ms is None else min(high, prefix + self.until_ms.to_bytes(8, "big"))
        return low, high

    def may_match(self, key: RowKey) -> bool:
        """Whether a row with this key may match."""
        if self.topic is not None and key.topic not in (None, self.topic):
            return False
        if self.generation is not None and key.generation not in (None, self.generation):
            return False
        if key.position is not None and not self._in_time(key.position.timestamp):
            return False
        return self.transaction is None or key.pointer in (None, self.transaction)

    def matches(self, shown: dict[str, Any]) -> bool:
        """Whether the row matches in what its key lacks: transactions, and the topics and times of a transaction."""
        if self.transaction is not None and shown.get("transaction") != self.transaction:
            return False
        if self.generation is not None and shown.get("generation", self.generation) != self.generation:
            return False
        if shown["table"] != TABLE_OF[keys.OPEN]:
            return True
        name = None if self.topic is None else "/".join(self.topic)
        return name is None or any(each["topic"] == name for each in shown["topics"])

    def began_in_time(self, started_ms: int) -> bool:
        """For transactions."""
        return self._in_time(started_ms)

    def _in_time(self, milliseconds: int) -> bool:
        return (self.since_ms is None or milliseconds >= self.since_ms) and (
            self.until_ms is None or milliseconds < self.until_ms
        )


HIGHEST_KEY = b"\xff" * 32


class DumpedStore(Protocol):
    """A store that does not change."""

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]: ...


@dataclass(slots=True)
class Count:
    """The rows of one table of one generation; ``bytes`` are those of keys and values."""

    rows: int = 0
    bytes: int = 0
    undecodable: int = 0


def context(store: DumpedStore, body_bytes_max: int = 0) -> RowContext:
    """The context for the rows of a store; damaged records of topics and transactions are ignored here."""
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
    """The selected rows; a damaged one has ``undecodable`` (why) and its raw ``key`` in hex."""
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
    """The fields of a row; None if it is not selected."""
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
        shown: dict[str, Any] = {"table": "none", "undecodable": "no table has keys with this first letter"}
        try:
            for key, value in store.scan(low, high):
                yield key, value, {**shown, "value_bytes": len(value)}
        except StorageError as error:
            yield low, b"", {"table": "none", "undecodable": f"after this key: {error}"}


def _behind_topic(key: bytes) -> bytes:
    """The first key after all rows of the same topic and table."""
    names = key.split(b":", 2)
    return keys.above(b":".join(names[:2]) + b":") if len(names) == 3 else HIGHEST_KEY
