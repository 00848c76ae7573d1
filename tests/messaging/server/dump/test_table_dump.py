"""The walk over all tables: it counts, says what is damaged, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.topics.messaging_core import NAMESPACE, START_MS, Core, publish

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.commands import DeleteTopic
from fairlead_messaging.server.dump import table_dump
from fairlead_messaging.server.dump.row_value import Fields
from fairlead_messaging.server.dump.table_dump import DumpedStore, DumpSelection
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.transactions.commands import Store


def some() -> Core:
    core = Core()
    for name in ("a", "b"):
        core.create(name)
        core.do(publish(name, "1", "22"))
    return core


def lines(store: DumpedStore, selection: DumpSelection | None = None) -> list[Fields]:
    return list(table_dump.lines(store, selection or DumpSelection(), table_dump.context(store)))


def test_damaged_rows_are_reported_and_skipped() -> None:
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


# --- What is asked for is found by key ranges: the same rows as when everything is looked at.


@pytest.fixture(scope="module")
def core() -> Core:
    """Two topics whose names begin alike, one in two generations, two transactions, some seconds."""
    core = Core()
    core.create("t")
    core.create("tt")
    core.do(publish("t", "old"))
    core.do(DeleteTopic(namespace=NAMESPACE, name="t"))
    core.create("t")
    for _ in range(2):
        pointer = core.start(100)
        for name in ("t", "tt"):
            core.do(publish(name, "plain"))
            core.do(Store(namespace=NAMESPACE, name=name, messages=[LoggedMessage(b"p")] * 2, pointer=pointer))
            core.do(publish(name, pointer=pointer))
            core.now_ms += 1000
    core.commit(pointer)
    return core


def found(core: Core, selection: DumpSelection) -> list[Fields]:
    with core.kv.snapshot() as snapshot:
        return list(table_dump.lines(snapshot, selection, table_dump.context(snapshot)))


def test_a_topic_is_not_another_with_a_longer_name(core: Core) -> None:
    lines = found(core, DumpSelection(topic=(NAMESPACE, "t")))
    assert {line["topic"] for line in lines if "topic" in line} == {f"{NAMESPACE}/t"}
    assert len([line for line in lines if line["table"] == "transactions"]) == 2
    assert found(core, DumpSelection(topic=(NAMESPACE, "u"))) == []


def test_a_generation_is_not_another(core: Core) -> None:
    [old] = found(core, DumpSelection(tables=("messages",), topic=(NAMESPACE, "t"), generation=1))
    assert old["unreachable"]
    assert len(found(core, DumpSelection(tables=("messages",), generation=1))) == 1 + 4
    [topic] = found(core, DumpSelection(tables=("topics",), generation=2))
    assert topic["topic"] == f"{NAMESPACE}/t"


@pytest.mark.parametrize("topic", [None, (NAMESPACE, "t"), (NAMESPACE, "tt")])
@pytest.mark.parametrize("generation", [None, 1, 2])
@pytest.mark.parametrize(("since", "until"), [(None, None), (START_MS + 1000, None), (START_MS, START_MS + 1001)])
@pytest.mark.parametrize("nth", [None, 0, 1])
def test_ranges_hold_what_the_filter_lets_through(
    core: Core, topic: tuple[str, str] | None, generation: int | None, since: int | None, until: int | None,
    nth: int | None,
) -> None:  # fmt: skip
    everything = found(core, DumpSelection())
    pointers = sorted({line["transaction"] for line in everything if line["table"] == "transactions"})
    pointer = pointers[nth] if nth is not None else None

    def wanted(line: Fields) -> bool:
        at_ms: int = line.get("published_ms") or line.get("written_ms") or 0
        return (
            line["table"] in ("messages", "payloads")
            and (topic is None or line["topic"] == "/".join(topic))
            and (generation is None or line["generation"] == generation)
            and (since is None or at_ms >= since)
            and (until is None or at_ms < until)
            and (pointer is None or line.get("transaction") == pointer)
        )

    asked = DumpSelection(
        tables=("messages", "payloads"), topic=topic, generation=generation, since_ms=since, until_ms=until,
        transaction=pointer,
    )  # fmt: skip
    assert found(core, asked) == [line for line in everything if wanted(line)]


def test_a_transaction_brings_what_belongs_to_it_and_nothing_else(core: Core) -> None:
    pointers = [line["transaction"] for line in found(core, DumpSelection(tables=("transactions",)))]
    for pointer in pointers:
        lines = found(core, DumpSelection(transaction=pointer))
        assert {line["transaction"] for line in lines} == {pointer}
        assert {line["table"] for line in lines} == {"messages", "payloads", "transactions", "indexes"}


def test_a_time_leaves_out_what_has_none(core: Core) -> None:
    assert {line["table"] for line in found(core, DumpSelection(since_ms=0))} == {
        "messages", "payloads", "transactions", "indexes",
    }  # fmt: skip
    assert len(found(core, DumpSelection(tables=("transactions",), since_ms=START_MS + 1))) == 1
    assert found(core, DumpSelection(since_ms=5, until_ms=3)) == []
