"""The walk over all tables: it counts, says what is damaged, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.dump import table_dump
from fairlead_messaging.server.dump.row_value import Fields
from fairlead_messaging.server.dump.table_dump import DumpedStore, DumpSelection
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.ordered_kv import Batch


def some() -> Core:
    core = Core()
    for name in ("a", "b"):
        core.create(name)
        core.do(publish(name, "1", "22"))
    return core


def lines(store: DumpedStore, selection: DumpSelection | None = None) -> list[Fields]:
    return list(table_dump.lines(store, selection or DumpSelection(), table_dump.context(store)))


def test_damaged_rows_are_said_and_passed() -> None:
    """With their raw key, and what of it could be read; rows of no table as well."""
    core = some()
    prefix = keys.table(keys.MESSAGE, core.topic("a"))
    batch = Batch()
    batch.put(prefix + bytes(10), b"")
    batch.put(prefix + b"short", b"\x00x")
    batch.put(b"Zstray", b"?")
    batch.put(b"\x00", b"?")
    batch.put(keys.open_transaction(7), b"{")
    core.kv.apply(batch)
    with core.kv.snapshot() as snapshot:
        found = lines(snapshot)
        counted = list(table_dump.counts(snapshot, DumpSelection(), table_dump.context(snapshot)))
    damaged = {bytes.fromhex(line["key"]): line for line in found if "undecodable" in line}
    assert set(damaged) == {prefix + bytes(10), prefix + b"short", b"Zstray", b"\x00", keys.open_transaction(7)}
    assert damaged[prefix + bytes(10)] == {
        "table": "messages", "topic": f"{NAMESPACE}/a", "generation": 1, "undecodable": "the value is empty",
        "value_bytes": 0, "key": (prefix + bytes(10)).hex(),
    }  # fmt: skip
    assert [line["bytes"] for line in found if line["table"] == "messages" and "bytes" in line] == [1, 2, 1, 2]
    assert sum(each["undecodable"] for each in counted) == 5
    [messages] = [each for each in counted if (each["table"], each.get("topic")) == ("messages", f"{NAMESPACE}/b")]
    assert (messages["rows"], messages["generation"]) == (2, 1)
    assert messages["bytes"] == 2 * len(prefix + bytes(10)) + 2 + 3


def test_raw_keys_are_shown_on_request() -> None:
    """Of each row."""
    core = some()
    with core.kv.snapshot() as snapshot:
        found = list(
            table_dump.lines(snapshot, DumpSelection(tables=("topics",)), table_dump.context(snapshot), raw_keys=True)
        )
    assert [bytes.fromhex(line["key"]) for line in found] == [keys.metadata(NAMESPACE, name) for name in ("a", "b")]


class Broken:
    """An engine that cannot read on within topic ``a``'s messages, nor any transaction."""

    def __init__(self, rows: DumpedStore) -> None:
        self._rows = rows

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        for number, (key, value) in enumerate(self._rows.scan(low, high)):
            if key.startswith(b"Mn:a:") and number == 1:
                raise StorageError("a block is damaged")
            yield key, value
        if low == keys.OPEN:
            raise StorageError("another block is damaged")


def test_where_the_engine_cannot_read_it_goes_on_behind_the_topic() -> None:
    """And with the next table."""
    core = some()
    with core.kv.snapshot() as snapshot:
        found = lines(Broken(snapshot))
    messages = [line for line in found if line["table"] == "messages"]
    assert [(line.get("topic"), "undecodable" in line) for line in messages] == [
        (f"{NAMESPACE}/a", False), (None, True), (f"{NAMESPACE}/b", False), (f"{NAMESPACE}/b", False),
    ]  # fmt: skip
    assert "a block is damaged" in messages[1]["undecodable"]
    assert [line["table"] for line in found if "another block" in line.get("undecodable", "")] == ["transactions"]
    assert found[-1]["table"] in ("service", "indexes")
