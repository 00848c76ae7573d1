"""The journal on a real node: one writer, large records in parts, what is left of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.topics.cassandra import Cassandra
from tests.support.topics.cassandra_store import Shards

from fairlead_messaging.server.io.stores.cassandra.journal import INLINE_BYTES, Journal
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import BucketChanges, RedoRecord

pytestmark = [pytest.mark.process, pytest.mark.verify]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    with Cassandra(tmp_path_factory.mktemp("cassandra")) as cassandra, Shards(cassandra) as shards:
        yield shards


def record(number: int, size: int) -> RedoRecord:
    return RedoRecord(number, {}, [], [BucketChanges(b"T", [], [(b"T1", bytes(size))])])


def parts(shards: Shards) -> set[tuple[object, ...]]:
    found = shards.session.execute("read", "SELECT DISTINCT shard, epoch, number FROM journal_parts")
    return set(found)


def test_only_the_owner_writes_the_next_batch(shards: Shards) -> None:
    """By its epoch and the number; a large record is there whole, and its parts go when it was applied."""
    journal = Journal(shards.session, "one")
    state = journal.read()
    assert (state.epoch, state.committed, state.owner) == (0, 0, "")
    assert journal.take(state, "id", "name") and not journal.take(state, "other", "other")
    small, large = record(1, 10), record(2, INLINE_BYTES * 5)
    assert journal.commit(1, 1, 0, buckets.encode_record(small))
    assert not journal.commit(1, 1, 0, buckets.encode_record(small)) and not journal.commit(0, 2, 0, b"")
    assert journal.commit(1, 2, 0, buckets.encode_record(large))
    assert journal.records_after(0) == [small, large] and journal.records_after(1) == [large]
    assert parts(shards) == {("one", 1, 2)}
    assert journal.beat(1, 5, 2) and not journal.beat(0, 6, 2)
    assert parts(shards) == set()
    assert (journal.read().owner_name, journal.read().applied) == ("name", 2)
    assert journal.release(1, 2) and journal.read().owner == ""


def test_an_owner_that_was_confirmed_since_is_not_replaced(shards: Shards) -> None:
    """By its beat or its batch; it may take the next epoch itself all the same."""
    journal = Journal(shards.session, "confirmed")
    begun = journal.read()
    assert journal.take(begun, "id", "name") and not journal.take(begun, "other", "other")
    seen = journal.read()
    assert journal.beat(1, seen.beat + 1, 0) and not journal.take(seen, "other", "other")
    seen = journal.read()
    assert journal.commit(1, 1, 0, buckets.encode_record(record(1, 10))) and not journal.take(seen, "other", "other")
    assert journal.take(seen, "id", "name") and journal.take(journal.read(), "other", "other")
    assert journal.read().epoch == 3


def test_parts_that_came_to_nothing_are_removed(shards: Shards) -> None:
    """By the next owner: a writer that was killed between, and one that woke too late."""
    journal = Journal(shards.session, "two")
    journal.take(journal.read(), "id", "name")
    assert not journal.commit(0, 7, 0, buckets.encode_record(record(7, INLINE_BYTES * 2)))
    assert journal.commit(1, 1, 0, buckets.encode_record(record(1, INLINE_BYTES * 2)))
    state = journal.read()
    journal.take(state, "next", "next")
    journal.drop_orphans(journal.read(), 0)
    assert parts(shards) == {("two", 1, 1)}  # it is not applied yet
    journal.drop_orphans(journal.read(), 1)
    assert parts(shards) == set()
