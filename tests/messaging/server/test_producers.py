"""Who publishes: epochs and fences, and one number for each message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, producer, publish

from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.server import producers, retention
from fairlead_messaging.server.commands import RemoveRows
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.producers import PRODUCERS_CACHED_MAX, Epochs, Intervals, KnownSequences, SequencePage
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch


def test_epochs() -> None:
    epochs = Epochs()
    assert epochs.note(producer(0, epoch=5))
    epochs.check(producer(0, epoch=3))
    assert not epochs.note(producer(0, epoch=3))
    with pytest.raises(Conflict):
        epochs.check(producer(0, epoch=3, fence=True))
    epochs.note(producer(0, epoch=5, fence=True))
    for again in (epochs, Epochs(epochs.encode())):
        with pytest.raises(Conflict):
            again.check(producer(0, epoch=4))
        again.check(producer(0, epoch=5))


def test_one_number_for_each_message() -> None:
    made = producers.make(producer_id="p", epoch=0, sequence=7, sequences=None, fence=False, messages=3)
    assert made.sequences == (7, 8, 9)
    with pytest.raises(Refused, match="2 numbers for 3"):
        producers.make(producer_id="p", epoch=0, sequence=None, sequences=[1, 2], fence=False, messages=3)


# --- What is known of a producer against a plain set: pages, and gaps without end.

KEY = b"R" + b"n:t:" + b"\x00\x00\x00\x01" + b"\x00\x01p" + bytes(8)


class Store:
    """A producer's pages over a store, written as the writer does; ``again`` is a restart."""

    def __init__(self, kv: MemoryKV | None = None) -> None:
        self.kv = kv or MemoryKV()
        self.known = KnownSequences(self.kv, KEY)

    def publish(self, *numbers: int) -> list[int]:
        """The numbers that were stored."""
        batch = Batch()
        fresh = [numbers[index] for index in self.known.split(numbers)[0]]
        if fresh:
            self.known.add(fresh, 1000, batch)
        self.kv.apply(batch)
        self.known.trim()
        return fresh

    def again(self) -> None:
        self.known = KnownSequences(self.kv, KEY)

    def rows(self) -> list[tuple[bytes, bytes]]:
        with self.kv.snapshot() as snapshot:
            return list(snapshot.scan(b"", b"\xff"))


@given(st.lists(st.integers(0, 60)), st.integers(0, 61))
def test_intervals_are_a_set(numbers: list[int], asked: int) -> None:
    intervals = Intervals()
    for number in numbers:
        intervals.add(number)
    expected = set(numbers)
    assert (asked in intervals) == (asked in expected)
    assert len(intervals) == sum(1 for number in expected if number + 1 not in expected)


@given(st.sets(st.integers(0, 400)) | st.sets(st.integers(0, 2**63 - 1)))
def test_nothing_changes_on_the_way_to_disk_and_back(numbers: set[int]) -> None:
    intervals = Intervals()
    for number in numbers:
        intervals.add(number)
    row = SequencePage(0, None, intervals, 1_700_000_000_000).encode()
    again = producers.decode(row)
    assert (again.lows, again.highs) == (intervals.lows, intervals.highs)
    assert producers.updated_ms(row) == 1_700_000_000_000
    assert len(row) <= 8 + 16 * len(intervals)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_pages_are_a_set(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "PAGE_INTERVALS_MAX", data.draw(st.sampled_from([1, 2, 5])))
        store, expected = Store(), set[int]()
        for _ in range(data.draw(st.integers(1, 12))):
            start, step = data.draw(st.integers(0, 80)), data.draw(st.integers(1, 5))
            numbers = list(range(start, start + step * data.draw(st.integers(1, 20)), step))
            if data.draw(st.booleans()):
                numbers.reverse()
            assert set(store.publish(*numbers)) == set(numbers) - expected
            expected.update(numbers)
            what = data.draw(st.integers(0, 3))
            if what == 0:
                store.again()
            elif what == 1 and (rows := store.rows()):  # retention takes a page; the cache does not hear of it
                key, row = data.draw(st.sampled_from(rows))
                batch = Batch()
                batch.delete(key)
                store.kv.apply(batch)
                gone = producers.decode(row)
                expected -= {number for number in expected if number in gone}
                store.again()


@pytest.mark.slow
def test_every_second_number_without_end_costs_bits() -> None:
    """Two topics in turns: 200,000 gaps, no limit, a few bits each, and one page is written at a time."""
    store = Store()
    for start in range(0, 400_000, 512):
        store.publish(*range(start, start + 512, 2))
    store.again()
    assert store.publish(0, 1, 199_998, 200_000, 399_998) == [1]
    rows = store.rows()
    assert max(len(row) for _, row in rows) < 150
    assert sum(len(key) + len(row) for key, row in rows) < 200_000


def test_scattered_numbers_are_refused_and_may_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that touches too many pages would hold up everybody; nothing of it was stored, its parts are."""
    monkeypatch.setattr(producers, "PAGES_MAX", 8)
    monkeypatch.setattr(producers, "PAGE_INTERVALS_MAX", 4)
    store = Store()
    for start in range(0, 400, 8):
        store.publish(*range(start, start + 8, 2))
    scattered = tuple(range(1, 400, 8))
    with pytest.raises(Refused) as refused:
        store.publish(*scattered)
    assert refused.value.code == "too_scattered"
    assert store.publish(*scattered[:4]) == list(scattered[:4])


def test_a_refused_request_leaves_what_its_batch_wrote_before(core: Core) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "PAGES_MAX", 2)
        patch.setattr(producers, "PAGE_INTERVALS_MAX", 2)
        for start in range(0, 60, 4):
            core.do(publish("t", "a", "b", producer=producer(start, start + 2)))
        one, two = core.batch(
            publish("t", "c", producer=producer(101)),
            publish("t", *"defghijk", producer=producer(*range(1, 60, 8))),
        )
        assert one.stored == (101,) and isinstance(two, Refused)
        assert core.do(publish("t", "c", "d", producer=producer(101, 102))).known == (101,)
        core.restart()
        assert core.do(publish("t", "a", "c", producer=producer(0, 101))).known == (0, 101)


def test_a_page_that_grew_old_is_forgotten_alone() -> None:
    core = Core()
    topic = core.create("t", ttl_seconds=10)
    for start in range(0, 1200, 2):
        core.do(publish("t", "a", producer=producer(start)))
    core.now_ms += 31 * 86_400_000
    core.do(publish("t", "a", producer=producer(1200)))
    with core.kv.snapshot() as snapshot:
        found = retention.sweep(snapshot, topic, core.now_ms)
        core.do(RemoveRows(batch=found.batch, silent=found.silent))
        pages = [producers.decode(row) for _, row in snapshot.scan(b"R", b"S")]
    assert len(pages) == 3
    core.restart()
    assert core.do(publish("t", "a", producer=producer(1200))).known == (1200,)
    assert core.do(publish("t", "a", producer=producer(0))).stored == (0,)


def test_large_numbers() -> None:
    store = Store()
    assert store.publish(2**63 - 1) == [2**63 - 1]
    store.again()
    assert store.publish(2**63 - 1) == []


def test_a_number_is_stored_once() -> None:
    known = KnownSequences(MemoryKV(), KEY)
    known.add([1], 1, Batch())
    assert known.split((0, 1, 2, 2)) == ([0, 2], [1, 3])


def test_pages_of_one_producer_are_not_those_of_another(core: Core) -> None:
    """Epochs that follow each other lie beside each other in the store."""
    topic = core.topic("t")
    for epoch in (1, 2, 256):
        core.do(publish("t", "a", producer=producer(5, epoch=epoch)))
    core.restart()
    for epoch in (1, 2, 3, 255, 256, 257):
        known = core.service._topics.of(("n", "t")).producers.known(core.topic("t"), "p", epoch)
        assert known.split((5,)) == (([], [0]) if epoch in (1, 2, 256) else ([0], []))
    assert keys.first_of_page(keys.producer(topic, "p", 1), keys.producer_page(keys.producer(topic, "p", 1), 7)) == 7


def test_forgotten_producers_are_read_again(core: Core) -> None:
    core.do(publish("t", "a", producer=producer(0)))
    for epoch in range(2, PRODUCERS_CACHED_MAX + 10):
        core.service._topics.of(("n", "t")).producers.known(core.topic("t"), "p", epoch)
    core.service._topics.of(("n", "t")).producers.trim()
    assert core.do(publish("t", "a", producer=producer(0))).known == (0,)
