"""Named readers and their lag."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import Conflict, Gone, Refused
from fairlead_messaging.api.message_id import FIRST, LAST, MessageId, last_of
from fairlead_messaging.api.responses import Reader
from fairlead_messaging.server import readers, retention
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.log import keys, running_totals
from fairlead_messaging.server.store.ordered_kv import Batch


def note(core: Core, reader: str, position: MessageId, generation: int | None = None) -> None:
    core.do(
        RecordReaderPosition(namespace=NAMESPACE, name="t", reader=reader, position=position, generation=generation)
    )


def listed(core: Core) -> list[Reader]:
    with core.kv.snapshot() as snapshot:
        return readers.every(snapshot, core.topic("t"), core.now_ms)


def test_lag_in_messages_and_seconds(core: Core) -> None:
    core.do(publish("t", *["x"] * 3000))
    ids = core.page("t", limit=5000).ids
    core.now_ms += 2500
    note(core, "ahead", ids[-1])
    note(core, "behind", ids[999], 1)
    note(core, "new", FIRST)
    assert [(each.name, each.lag_messages, each.lag_seconds) for each in listed(core)] == [
        ("ahead", 0, 0.0), ("behind", 2000, 2.5), ("new", 3000, 2.5),
    ]  # fmt: skip


def test_who_may_read_fills_no_disk_with_names(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READERS_MAX", 3)
    core.create("t2")
    core.do(RecordReaderPosition(namespace=NAMESPACE, name="t2", reader="z", position=FIRST, generation=None))
    for name in ("a", "b", "c", "a", "d", "e", "e"):
        core.now_ms += 1
        note(core, name, FIRST)
    assert [each.name for each in listed(core)] == ["a", "d", "e"]
    with core.kv.snapshot() as snapshot:
        assert [each.name for each in readers.every(snapshot, core.topic("t2"), core.now_ms)] == ["z"]
    monkeypatch.setattr(readers, "READERS_MAX", 1)
    core.now_ms += 1
    note(core, "f", FIRST)
    assert [each.name for each in listed(core)] == ["f"]


def test_what_has_expired_is_no_lag() -> None:
    core = Core()
    core.create("t", ttl_seconds=10)
    core.do(publish("t", "old"))
    core.now_ms += 11_000
    core.do(publish("t", "new"))
    note(core, "r", FIRST)
    assert [each.lag_messages for each in listed(core)] == [1]


def test_what_is_refused(core: Core) -> None:
    with pytest.raises(Conflict):
        note(core, "r", FIRST, 2)
    with pytest.raises(Refused):
        note(core, "a b", FIRST)


def test_an_expired_start_is_gone_only_when_something_was_missed() -> None:
    """A reader that was at the end missed nothing, however long it slept."""
    core = Core()
    core.create("t", ttl_seconds=10)
    core.do(publish("t", "a", "b"))
    first, last = core.page("t").ids
    core.now_ms += 11_000
    with core.kv.snapshot() as snapshot:
        readers.check_start(snapshot, core.topic("t"), last, core.now_ms)
        readers.check_start(snapshot, core.topic("t"), FIRST, core.now_ms)
        with pytest.raises(Gone) as gone:
            readers.check_start(snapshot, core.topic("t"), first, core.now_ms)
    assert (gone.value.facts["expired"], gone.value.facts["exact"]) == (1, True)
    core.do(publish("t", "c"))
    assert core.read("t", after=bytes.fromhex(gone.value.facts["oldest"])) == ["c"]


def sweep(core: Core) -> None:
    with core.kv.snapshot() as snapshot:
        found = retention.sweep(snapshot, core.topic("t"), core.now_ms)
    core.kv.apply(found.batch)


def missed(core: Core, after: MessageId) -> tuple[int, bool]:
    with core.kv.snapshot() as snapshot, pytest.raises(Gone) as gone:
        readers.check_start(snapshot, core.topic("t"), after, core.now_ms)
    return gone.value.facts["expired"], gone.value.facts["exact"]


def filled(ttl_seconds: int = 10) -> tuple[Core, list[MessageId]]:
    """5,000 messages, all expired and removed, and one that lives."""
    core = Core()
    core.create("t", ttl_seconds=ttl_seconds)
    for _ in range(50):
        core.do(publish("t", *["x"] * 100))
        core.now_ms += 1
    ids = core.page("t", limit=10**6).ids
    return core, ids


def test_how_much_expired_is_known_after_cleanup_too() -> None:
    """Where no row is left, at most the messages up to the mark before are counted in; not all that ever was."""
    core, ids = filled()
    core.now_ms += 11_000
    core.do(publish("t", "new"))
    sweep(core)
    counted, exact = missed(core, ids[2999])
    assert 2000 <= counted <= 2000 + running_totals.MARK_ROWS
    assert not exact


def test_a_reader_that_noted_its_position_learns_exactly_what_it_missed() -> None:
    core, ids = filled()
    with core.kv.snapshot() as snapshot:
        command = RecordReaderPosition(namespace=NAMESPACE, name="t", reader="r", position=ids[2999], generation=None)
        core.do(readers.counted(snapshot, core.topic("t"), command))
    for _ in range(3):
        core.now_ms += 11_000
        core.do(publish("t", "new"))
        sweep(core)
    assert missed(core, ids[2999]) == (2002, True)


def test_a_position_counts_only_when_it_can_be_known() -> None:
    core, ids = filled()
    pointer = core.start(600)
    core.store(pointer, "a", "b")
    core.do(publish("t", pointer=pointer))
    inside = core.page("t", limit=10**6).ids[-2]

    def passed(position: MessageId, generation: int | None = None) -> int | None:
        command = RecordReaderPosition(
            namespace=NAMESPACE, name="t", reader="r", position=position, generation=generation
        )
        with core.kv.snapshot() as snapshot:
            return readers.counted(snapshot, core.topic("t"), command).passed

    assert passed(ids[-1]) == len(ids)
    assert passed(FIRST) is None
    assert passed(inside) is None
    assert passed(LAST) is None
    core.commit(pointer)
    assert passed(inside) is None
    assert passed(last_of(inside[:10])) == len(ids) + 2
    with pytest.raises(Conflict):
        passed(ids[0], generation=7)
    batch = Batch()
    batch.delete(keys.table(keys.MESSAGE, core.topic("t")) + ids[100][:10])
    core.kv.apply(batch)
    assert (passed(ids[99]), passed(ids[2000])) == (None, 2001)
