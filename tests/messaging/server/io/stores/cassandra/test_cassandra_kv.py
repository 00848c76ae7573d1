"""Writes whose answer is lost, owners that change, layers and buckets: on a twin of Cassandra in memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.processes import wait_until
from tests.support.topics.cassandra_store import Counted
from tests.support.topics.cassandra_twin import Disk

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra import cassandra_kv, ownership
from fairlead_messaging.server.io.stores.cassandra.cassandra_kv import (
    KEYS_MAX,
    VALUE_BYTES_MAX,
    CassandraKV,
    RecentValues,
)
from fairlead_messaging.server.io.stores.cassandra.ownership import TakenOver
from fairlead_messaging.server.io.stores.cassandra.rows import CassandraSnapshot
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.layer import UNTOUCHED, Layer
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV

GENERATION = b"Ms:t:\x00\x00\x00\x01"


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are counted by stays the same."""
    monkeypatch.setattr(cassandra_kv, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(cassandra_kv, "SETTLE_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(ownership, "CHECK_SECONDS", 0.001)


def opened(disk: Disk, counted: Counted | None = None, name: str = "a test") -> CassandraKV:
    return CassandraKV(disk.journal(), disk.stored(), name, counted or Counted())


def put(kv: OrderedKV, *keys: bytes) -> None:
    batch = Batch()
    for key in keys:
        batch.put(key, key)
    kv.apply(batch)


def keys(kv: OrderedKV) -> list[bytes]:
    with kv.snapshot() as snapshot:
        return [key for key, _ in snapshot.scan(b"", b"\xff" * 20)]


@pytest.mark.parametrize("fate", ["lost", "never"])
def test_a_write_without_an_answer_is_found_out(fate: str) -> None:
    """It is there once, and its caller hears that it is, whether it took place or had to be done again."""
    disk, counted = Disk(), Counted()
    kv = opened(disk, counted)
    put(kv, b"a")
    epoch = disk.state.epoch
    disk.fates = [fate]
    put(kv, b"b")
    assert keys(kv) == [b"a", b"b"]
    assert disk.state.committed == 2 and disk.state.epoch == epoch + 1
    assert (counted.unknown, counted.repeated) == (1, 1 if fate == "never" else 0)
    kv.close()


def test_what_became_of_a_write_may_be_found_out_later() -> None:
    """Its caller heard that it is not known; with the next write it is, and it is there."""
    disk = Disk()
    kv = opened(disk)
    put(kv, b"a")
    disk.fates = ["lost"] + ["never"] * 100
    with pytest.raises(StorageError, match="no answer; the next write will find out whether"):
        put(kv, b"b")
    disk.fates = []
    put(kv, b"c")
    assert keys(kv) == [b"a", b"b", b"c"]
    kv.close()


def test_nothing_is_answered_while_no_node_does() -> None:
    disk = Disk()
    kv = opened(disk)
    disk.is_down = True
    with pytest.raises(StorageError):
        put(kv, b"a")
    with pytest.raises(StorageError):
        kv.apply(Batch())
    disk.is_down = False
    kv.apply(Batch())
    put(kv, b"b")
    assert keys(kv) == [b"b"]
    kv.close()


def test_a_second_instance_is_told_who_the_first_is(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    first = opened(disk, name="process 4711 on till")
    monkeypatch.setattr(ownership, "pause", lambda seconds: first.apply(Batch()))
    with pytest.raises(TakenOver, match="in use by process 4711 on till"):
        opened(disk)
    first.close()


def test_a_paused_writer_writes_and_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another took over while it slept; when that is gone it begins from what that left."""
    disk, counted = Disk(), Counted()
    first = opened(disk, counted)
    put(first, b"a")
    disk.state = disk.state._replace(owner="", owner_name="")  # as after a lease's time
    second = opened(disk, name="process 12 on desk")
    put(second, b"b")
    with pytest.raises(TakenOver, match="process 12 on desk took over"):
        put(first, b"c")
    with pytest.raises(StorageError):
        first.get(b"a")
    with pytest.raises(StorageError):
        first.snapshot()
    assert counted.taken_over == 1
    second.close()
    first.apply(Batch())
    put(first, b"d")
    assert keys(first) == [b"a", b"b", b"d"]
    first.close()


def test_what_rests_on_the_time_before_another_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper found out, so no write had failed; and the other is gone, so this one may begin at once."""
    monkeypatch.setattr(cassandra_kv, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(ownership, "BEAT_SECONDS", 0.02)
    disk, counted = Disk(), Counted()
    first = opened(disk, counted)
    put(first, b"a")
    disk.state = disk.state._replace(owner="", owner_name="")  # as after a lease's time
    second = opened(disk)
    put(second, b"b")
    second.close()
    wait_until("the first knows", lambda: counted.taken_over == 1, seconds=60)
    with pytest.raises(StorageError, match="another instance wrote meanwhile"):
        put(first, b"b of yesterday")
    first.apply(Batch())
    put(first, b"c")
    assert keys(first) == [b"a", b"b", b"c"]
    first.close()


def test_an_owner_that_was_killed_leaves_what_it_answered() -> None:
    """What only the journal has is written to its rows by the next owner."""
    disk = Disk()
    first = opened(disk)
    with first.snapshot():  # holds what follows back from the rows
        for number in range(5):
            put(first, b"k%d" % number)
        assert not disk.rows
        disk.state = disk.state._replace(owner="")
        second = opened(disk)
        assert keys(second) == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    second.close()
    first.close()


def test_snapshots_that_hold_up_writing_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their reader is asked to repeat; a writer without room does not wait for ever."""
    from fairlead_messaging.server.io.stores.cassandra import applier

    monkeypatch.setattr(applier, "SNAPSHOT_SECONDS", 0.0)
    disk = Disk()
    kv = opened(disk)
    put(kv, b"a")
    with kv.snapshot() as old:
        for number in range(applier.WAITING_MAX + 2):
            put(kv, b"k%03d" % number)
        with pytest.raises(StorageError, match="repeat it"):
            old.get(b"a")
    kv.close()


def test_a_topic_gets_buckets_as_it_grows_and_loses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets.changes, "__defaults__", (100,))
    disk = Disk()
    kv = opened(disk)
    rows = [GENERATION + number.to_bytes(10, "big") for number in range(30)]
    for row in rows:
        put(kv, row)
    put(kv, b"Ms:u:\x00\x00\x00\x01" + bytes(10))
    assert keys(kv)[:30] == rows
    kv.close()
    again = opened(disk)
    begun = {bucket for bucket, _ in disk.rows}
    assert len(begun) > 5 and GENERATION in begun
    assert keys(again)[:30] == rows
    with again.snapshot() as snapshot:
        assert snapshot.last_below(GENERATION, rows[20]) == (rows[19], rows[19])
    batch = Batch()
    batch.delete_range(rows[0], rows[25])
    again.apply(batch)
    assert keys(again)[:5] == rows[25:]
    again.close()
    assert len(disk.dropped) >= 4 and GENERATION in disk.dropped
    final = opened(disk)
    assert keys(final)[:5] == rows[25:]
    final.close()


parts = st.sampled_from([b"", b"T", b"Ms:t:\x00\x00\x00\x01", b"Ms:t:\x00\x00\x00\x02", b"P", b"\xfe"])
some_keys = st.builds(lambda part, end: part + end, parts, st.binary(max_size=2))
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), some_keys, st.binary(max_size=60)),
        st.tuples(st.just("delete"), some_keys, st.just(b"")),
        st.tuples(st.just("range"), some_keys, some_keys),
    ),
    min_size=1,
    max_size=8,
)
fates = st.sampled_from(["", "", "lost", "never", "again", "hold", "let go"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(operations, fates), max_size=12))
def test_it_is_what_the_twin_is(steps: list[tuple[list[tuple[str, bytes, bytes]], str]]) -> None:
    """Whatever is lost, whoever opens it again, and while old snapshots hold rows back, which do not change."""
    default = buckets.changes.__defaults__
    buckets.changes.__defaults__ = (80,)  # so that there are many
    disk, twin = Disk(), MemoryKV()
    kv = opened(disk)
    held: CassandraSnapshot | None = None
    rows_held: list[tuple[bytes, bytes]] = []
    try:
        for operations_, fate in steps:
            batch = Batch()
            for what, first, second in operations_:
                if what == "put":
                    batch.put(first, second)
                elif what == "delete":
                    batch.delete(first)
                else:
                    batch.delete_range(first, second)
            if fate in ("lost", "never"):
                disk.fates = [fate]
            kv.apply(batch)
            twin.apply(batch)
            assert seen(kv) == seen(twin)
            for _, key, _ in operations_:
                assert kv.get(key) == twin.get(key)
            if fate == "hold" and held is None:
                held, rows_held = kv.snapshot(), seen(kv)[0]
            elif fate == "let go" and held is not None:
                held.close()
                held = None
            elif fate == "again" and held is None:
                kv.close()
                kv = opened(disk)
            elif held is not None:
                assert list(held.scan(b"", b"\xff\xff")) == rows_held
    finally:
        if held is not None:
            held.close()
        kv.close()
        buckets.changes.__defaults__ = default
    again = opened(disk)
    assert seen(again) == seen(twin)
    again.close()


def seen(kv: OrderedKV) -> tuple[list[tuple[bytes, bytes]], object]:
    with kv.snapshot() as snapshot:
        return list(snapshot.scan(b"", b"\xff\xff")), snapshot.last_below(b"M", b"N")


# --- Values at hand are those of the newest batch.


def test_a_batch_changes_what_is_at_hand() -> None:
    recent = RecentValues()
    for key in (b"a", b"b", b"c", b"d"):
        recent.keep(key, b"0", 0)
    batch = Batch()
    batch.delete_range(b"c", b"d")
    batch.put(b"a", b"1")
    batch.delete(b"b")
    batch.put(b"d", bytes(VALUE_BYTES_MAX + 1))
    batch.put(b"e", b"1")
    recent.apply(Layer.of(batch, 1))
    assert [recent.get(key) for key in (b"a", b"b", b"c", b"d", b"e")] == [
        (b"1", 1), (None, 1), (UNTOUCHED, 1), (UNTOUCHED, 1), (UNTOUCHED, 1)
    ]  # fmt: skip


def test_what_was_read_before_a_batch_is_not_kept() -> None:
    recent = RecentValues()
    recent.apply(Layer.of(Batch(), 1))
    recent.keep(b"a", b"old", 0)
    assert recent.get(b"a") == (UNTOUCHED, 1)


def test_it_is_bounded() -> None:
    recent = RecentValues()
    for number in range(KEYS_MAX + 1):
        recent.keep(b"%d" % number, b"", 0)
    assert recent.get(b"0")[0] is UNTOUCHED and recent.get(b"1")[0] == b""
    recent.clear(5)
    assert recent.get(b"1") == (UNTOUCHED, 5)
