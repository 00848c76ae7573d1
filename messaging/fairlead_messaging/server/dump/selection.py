"""Which rows were asked for: tables, topic, generation, time, transaction; as key ranges where their order allows.

A filter leaves out the tables whose rows have nothing of the kind: one that names a transaction shows messages,
payloads, transactions and what refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairlead_messaging.server.dump.row_key import BY_TOPIC, TABLE_OF, TABLES, RowKey
from fairlead_messaging.server.log import keys

_POSITIONED = frozenset([keys.MESSAGE, keys.MARK, keys.REFERENCE])
"""Tables ordered by position within a generation."""
_OF_TRANSACTIONS = frozenset([keys.MESSAGE, keys.PAYLOAD, keys.OPEN, keys.FINISHED, keys.REFERENCE, keys.LONG])
_WITH_TIME = frozenset([keys.MESSAGE, keys.PAYLOAD, keys.MARK, keys.EXPIRY, keys.REFERENCE])
_TRANSACTIONS = frozenset([keys.OPEN, keys.FINISHED])


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """``since_ms`` inclusive, ``until_ms`` exclusive: when a message was published, a payload written, a transaction
    begun.  Without ``tables`` all of them."""

    tables: tuple[str, ...] = ()
    topic: tuple[str, str] | None = None
    generation: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    transaction: int | None = None

    @property
    def is_everything(self) -> bool:
        """Then also what belongs to no table is shown."""
        return self == DumpSelection()

    def letters(self) -> Iterator[bytes]:
        """Of the tables that may hold something, in the order in which they are shown."""
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
        """As far as a key says it."""
        if self.topic is not None and key.topic not in (None, self.topic):
            return False
        if self.generation is not None and key.generation not in (None, self.generation):
            return False
        if key.position is not None and not self._in_time(key.position.timestamp):
            return False
        return self.transaction is None or key.pointer in (None, self.transaction)

    def matches(self, shown: dict[str, Any]) -> bool:
        """What a key does not say: the transaction of a message, the topics and the time of a transaction."""
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
