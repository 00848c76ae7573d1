"""What every ordered key-value store promises, held against each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.cassandra import FEW_TOMBSTONES, Cassandra
from tests.support.topics.cassandra_store import Shards

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.io.stores.sqlite_kv import SqliteKV
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV

Open = Callable[[], OrderedKV]


ON_CASSANDRA = (pytest.mark.process, pytest.mark.verify)
"""One node serves all tests of this file."""


@pytest.fixture(params=["memory", "sqlite", "rocksdb", pytest.param("cassandra", marks=ON_CASSANDRA)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    with Cassandra(tmp_path_factory.mktemp("cassandra"), *FEW_TOMBSTONES) as cassandra, Shards(cassandra) as shards:
        yield shards


@pytest.fixture
def kv(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OrderedKV]:
    store = request.getfixturevalue("shards").opened() if kind == "cassandra" else opened(kind, tmp_path)
    yield store
    store.close()


def opened(kind: str, directory: Path) -> OrderedKV:
    stores: dict[str, Callable[[Path], OrderedKV]] = {
        "memory": lambda _: MemoryKV(), "sqlite": SqliteKV, "rocksdb": RocksKV,
    }  # fmt: skip
    return stores[kind](directory)


def put(kv: OrderedKV, **rows: str) -> None:
    batch = Batch()
    for key, value in rows.items():
        batch.put(key.encode(), value.encode())
    kv.apply(batch)


def everything(kv: OrderedKV, low: bytes = b"", high: bytes = b"\xff") -> list[tuple[bytes, bytes]]:
    with kv.snapshot() as snapshot:
        return list(snapshot.scan(low, high))


def test_a_batch_is_applied_in_order(kv: OrderedKV) -> None:
    """Later operations of a batch see earlier ones."""
    put(kv, a="1", b="1", c="1")
    batch = Batch()
    batch.put(b"a", b"2")
    batch.delete(b"b")
    batch.delete_range(b"c", b"d")
    batch.put(b"c", b"3")
    kv.apply(batch)
    assert everything(kv) == [(b"a", b"2"), (b"c", b"3")]


def test_scan_is_ordered_by_unsigned_bytes_and_bounded(kv: OrderedKV) -> None:
    """Low is included, high is not, 0xff sorts last."""
    batch = Batch()
    for key in (b"\xfe", b"a\xff", b"a", b"a\x00", b"b", b"\x00"):
        batch.put(key, key)
    kv.apply(batch)
    assert [key for key, _ in everything(kv, b"a", b"b")] == [b"a", b"a\x00", b"a\xff"]
    assert [key for key, _ in everything(kv, b"\x00", b"\xff")] == [b"\x00", b"a", b"a\x00", b"a\xff", b"b", b"\xfe"]
    assert everything(kv, b"b", b"a") == []


def test_get(kv: OrderedKV) -> None:
    """Present, absent, and empty values are three different things."""
    put(kv, a="", b="x")
    assert (kv.get(b"a"), kv.get(b"b"), kv.get(b"c")) == (b"", b"x", None)
    with kv.snapshot() as snapshot:
        assert (snapshot.get(b"a"), snapshot.get(b"b"), snapshot.get(b"c")) == (b"", b"x", None)


def test_last_below_honours_both_bounds(kv: OrderedKV) -> None:
    """The greatest key in the range, and nothing from outside it."""
    put(kv, a1="x", a3="y", c="z")
    with kv.snapshot() as snapshot:
        assert snapshot.last_below(b"a", b"b") == (b"a3", b"y")
        assert snapshot.last_below(b"a", b"a3") == (b"a1", b"x")
        assert snapshot.last_below(b"b", b"c") is None
        assert snapshot.last_below(b"d", b"e") is None
        assert snapshot.last_below(b"b", b"a") is None


@pytest.mark.parametrize("sequential", [False, True])
def test_take_is_the_beginning_of_a_scan(kv: OrderedKV, sequential: bool) -> None:
    """As many rows as asked, ending with the one that reaches the bytes; whatever the store keeps at hand."""
    put(kv, a="12", b="", c="345", d="6", e="7")
    with kv.snapshot(sequential=sequential) as snapshot:
        assert snapshot.take(b"a", b"z", 10, 100) == ([b"a", b"b", b"c", b"d", b"e"], [b"12", b"", b"345", b"6", b"7"])
        assert snapshot.take(b"b", b"d", 10, 100) == ([b"b", b"c"], [b"", b"345"])
        assert snapshot.take(b"a", b"z", 2, 100)[0] == [b"a", b"b"]
        assert snapshot.take(b"a", b"z", 10, 5)[0] == [b"a", b"b", b"c"]
        assert snapshot.take(b"a", b"z", 10, 1)[0] == [b"a"]
        assert snapshot.take(b"x", b"z", 10, 100) == ([], [])
        assert list(snapshot.scan(b"d", b"z")) == [(b"d", b"6"), (b"e", b"7")]


def test_a_scan_goes_on_after_a_take(kv: OrderedKV) -> None:
    """Both may be under way over one snapshot."""
    put(kv, a="1", b="2", c="3")
    with kv.snapshot() as snapshot:
        rows = snapshot.scan(b"a", b"z")
        assert next(rows) == (b"a", b"1")
        assert snapshot.take(b"c", b"z", 1, 1)[0] == [b"c"]
        assert list(rows) == [(b"b", b"2"), (b"c", b"3")]


def test_a_snapshot_never_changes(kv: OrderedKV) -> None:
    """Writes, deletes and range deletes after it are not seen, also not by a scan that is under way."""
    put(kv, a="1", b="1", c="1")
    with kv.snapshot() as before:
        rows = before.scan(b"a", b"z")
        assert next(rows) == (b"a", b"1")
        batch = Batch()
        batch.put(b"b", b"2")
        batch.put(b"d", b"2")
        batch.delete_range(b"c", b"d")
        kv.apply(batch)
        assert list(rows) == [(b"b", b"1"), (b"c", b"1")]
        assert before.get(b"d") is None
        assert before.last_below(b"a", b"z") == (b"c", b"1")
    assert everything(kv) == [(b"a", b"1"), (b"b", b"2"), (b"d", b"2")]


def test_an_abandoned_scan_holds_nothing_back(kv: OrderedKV) -> None:
    """A reader that goes away in the middle a hundred times leaves the store usable."""
    put(kv, **{f"k{i:03}": "v" for i in range(100)})
    for _ in range(100):
        with kv.snapshot() as snapshot:
            next(snapshot.scan(b"k", b"l"))
    put(kv, z="1")
    assert kv.get(b"z") == b"1"


def test_compare_and_set(kv: OrderedKV) -> None:
    """Only the expected value is replaced; None expects the key to be absent."""
    assert kv.compare_and_set(b"k", None, b"1")
    assert not kv.compare_and_set(b"k", None, b"2")
    assert not kv.compare_and_set(b"k", b"0", b"2")
    assert kv.compare_and_set(b"k", b"1", b"2")
    assert kv.get(b"k") == b"2"


def test_compaction_changes_no_answer(kv: OrderedKV) -> None:
    """Deleted rows stay deleted, living rows stay."""
    put(kv, a="1", b="1")
    batch = Batch()
    batch.delete(b"a")
    kv.apply(batch)
    kv.compact(b"", b"z")
    assert everything(kv) == [(b"b", b"1")]


def test_many_deleted_rows_do_not_stop_a_reader(kv: OrderedKV) -> None:
    """From either end; Cassandra refuses to pass too many at once, so they are passed in parts."""
    rows = [b"m" + number.to_bytes(4, "big") for number in range(3000)]
    batch = Batch()
    for row in (b"a", *rows, b"z"):
        batch.put(row, row)
    kv.apply(batch)
    batch = Batch()
    for row in rows:
        batch.delete(row)
    kv.apply(batch)
    kv.apply(Batch())
    with kv.snapshot() as snapshot:
        assert [key for key, _ in snapshot.scan(b"", b"\xff")] == [b"a", b"z"]
        assert snapshot.last_below(b"", b"z") == (b"a", b"a")
        assert snapshot.last_below(b"b", b"z") is None


def test_values_of_any_size(kv: OrderedKV) -> None:
    """Also one that is larger than a store likes to take at once, and a shorter one in its place."""
    large = bytes(range(256)) * 12_000
    batch = Batch()
    batch.put(b"a", large)
    batch.put(b"b", b"small")
    kv.apply(batch)
    assert kv.get(b"a") == large
    assert everything(kv) == [(b"a", large), (b"b", b"small")]
    batch = Batch()
    batch.put(b"a", large[:300_000])
    kv.apply(batch)
    with kv.snapshot() as snapshot:
        assert snapshot.last_below(b"a", b"b") == (b"a", large[:300_000])
    assert everything(kv)[0] == (b"a", large[:300_000])


def test_a_closed_snapshot_refuses(kv: OrderedKV) -> None:
    """Using what was given back is an error, not an empty answer."""
    snapshot = kv.snapshot()
    snapshot.close()
    with pytest.raises(StorageError):
        list(snapshot.scan(b"a", b"b"))


def test_readers_in_threads_see_whole_batches(kv: OrderedKV) -> None:
    """Two keys written together are never seen apart."""
    put(kv, a="0", b="0")
    torn: list[tuple[bytes | None, bytes | None]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            with kv.snapshot() as snapshot:
                pair = (snapshot.get(b"a"), snapshot.get(b"b"))
            if pair[0] != pair[1]:
                torn.append(pair)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(50):
        put(kv, a=str(number), b=str(number))
    stop.set()
    thread.join()
    assert torn == []


@pytest.mark.parametrize("kind", ["sqlite", "rocksdb"])
def test_everything_is_there_after_opening_again(kind: str, tmp_path: Path) -> None:
    """Closing and opening loses nothing."""
    first = opened(kind, tmp_path)
    put(first, a="1", b="2")
    first.close()
    second = opened(kind, tmp_path)
    assert everything(second) == [(b"a", b"1"), (b"b", b"2")]
    second.close()


@pytest.mark.process
@pytest.mark.verify
def test_everything_is_there_after_opening_again_elsewhere(shards: Shards) -> None:
    """The same for a store that others may open."""
    first = shards.opened("again")
    put(first, a="1", b="2")
    first.close()
    second = shards.opened("again")
    assert everything(second) == [(b"a", b"1"), (b"b", b"2")]
    second.close()


keys_ = st.binary(max_size=3)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys_, st.binary(max_size=2)),
        st.tuples(st.just("delete"), keys_, st.just(b"")),
        st.tuples(st.just("range"), keys_, keys_),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(batches=st.lists(operations, max_size=5), low=keys_, high=keys_)
def test_all_stores_agree(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, bytes, bytes]]], low: bytes, high: bytes
) -> None:
    """Any sequence of batches leaves the same rows in each, and each finds the same last row."""
    stores = [opened(kind, tmp_path_factory.mktemp(kind)) for kind in ("memory", "sqlite", "rocksdb")]
    try:
        for operations_ in batches:
            batch = Batch()
            for what, first, second in operations_:
                if what == "put":
                    batch.put(first, second)
                elif what == "delete":
                    batch.delete(first)
                else:
                    batch.delete_range(first, second)
            for store in stores:
                store.apply(batch)
        seen = []
        for store in stores:
            with store.snapshot() as snapshot:
                seen.append((list(snapshot.scan(low, high)), snapshot.last_below(low, high)))
        assert seen[0] == seen[1] == seen[2]
    finally:
        for store in stores:
            store.close()


@pytest.mark.process
@pytest.mark.verify
@settings(max_examples=15, deadline=None)
@given(batches=st.lists(operations, max_size=5), low=keys_, high=keys_)
def test_cassandra_agrees(
    shards: Shards, batches: list[list[tuple[str, bytes, bytes]]], low: bytes, high: bytes
) -> None:
    """With the twin in memory, also after another instance opened what the first left."""
    twin, name = MemoryKV(), shards.unused()
    store = shards.opened(name)
    for operations_ in batches:
        batch = Batch()
        for what, first, second in operations_:
            if what == "put":
                batch.put(first, second)
            elif what == "delete":
                batch.delete(first)
            else:
                batch.delete_range(first, second)
        store.apply(batch)
        twin.apply(batch)
        assert seen(store, low, high) == seen(twin, low, high)
    store.close()
    again = shards.opened(name)
    assert seen(again, low, high) == seen(twin, low, high)
    again.close()


def seen(store: OrderedKV, low: bytes, high: bytes) -> object:
    with store.snapshot() as snapshot:
        return list(snapshot.scan(low, high)), snapshot.last_below(low, high)
