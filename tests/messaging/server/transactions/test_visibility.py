"""Who sees what: the three answers for a row's pointer."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import FIRST, MessageId
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.log import bulk
from fairlead_messaging.server.log.rows import LoggedMessage, RowState
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Abort, Start
from fairlead_messaging.server.transactions.transaction import TransactionView
from fairlead_messaging.server.transactions.visibility import TransactionSnapshot


def test_decisions(core: Core) -> None:
    committed, aborted, open_ = (core.start(5) for _ in range(3))
    core.commit(committed)
    core.do(Abort(pointer=aborted))
    mine = core.do(Start(timeout_seconds=5))
    later = core.start(5)
    core.commit(later)
    core.commit(open_)
    own = mine.transaction.pointer
    with core.kv.snapshot() as snapshot:
        view = TransactionView(snapshot)
    by_service = visibility.row_states(view, None, read_committed=True)
    by_snapshot = visibility.row_states(view, mine.snapshot, read_committed=False)
    assert by_service is not None and by_snapshot is not None
    assert visibility.row_states(view, None, read_committed=False) is None
    expected = {
        committed: (RowState.COMMITTED, RowState.COMMITTED),
        aborted: (RowState.ABORTED, RowState.ABORTED),
        open_: (RowState.COMMITTED, RowState.UNCOMMITTED),
        own: (RowState.UNCOMMITTED, RowState.COMMITTED),
        later: (RowState.COMMITTED, RowState.UNCOMMITTED),
        -own: (RowState.ABORTED, RowState.ABORTED),
    }
    assert {pointer: (by_service(pointer), by_snapshot(pointer)) for pointer in expected} == expected


def test_snapshots_travel_as_bytes() -> None:
    made = TransactionSnapshot(5, frozenset({1, 2}), frozenset({3}))
    assert visibility.decode_snapshot(made.encode()) == made
    for bad in (
        b"",
        b"\xc0",
        b"nonsense",
        made.encode()[:-1],
        TransactionSnapshot(0, frozenset(), frozenset()).encode(),
    ):
        with pytest.raises(Refused):
            visibility.decode_snapshot(bad)


# --- What a committed reader waits for, and what it does not.


def begun(ttl_seconds: int = 1000) -> tuple[Core, int]:
    core = Core()
    core.create("t", ttl_seconds)
    return core, core.start(600)


def short(*payloads: str, pointer: int | None = None, ttl_seconds: int = 1) -> Publish:
    messages = [LoggedMessage(payload.encode(), ttl_seconds) for payload in payloads]
    return Publish(namespace=NAMESPACE, name="t", messages=messages, pointer=pointer, producer=None)


def waits_at(core: Core, after: MessageId = FIRST) -> bytes | None:
    with core.kv.snapshot() as snapshot:
        found = visibility.first_uncommitted(
            snapshot, TransactionView(snapshot), core.topic("t"), now_ms=core.now_ms, after=after
        )
    return found.message_id if found is not None else None


def test_the_first_living_message_of_an_open_transaction() -> None:
    core, pointer = begun()
    core.do(publish("t", "a"))
    assert waits_at(core) is None
    core.do(publish("t", "b", pointer=pointer))
    with core.kv.snapshot() as snapshot:
        found = visibility.first_uncommitted(snapshot, TransactionView(snapshot), core.topic("t"), now_ms=core.now_ms)
    assert found is not None
    assert (found.message_id, found.pointer, found.since_ms) == (core.page("t").ids[1], pointer, core.now_ms)
    core.commit(pointer)
    assert waits_at(core) is None


def test_a_reader_behind_it_does_not_wait_for_it() -> None:
    core, pointer = begun()
    core.do(publish("t", "a", pointer=pointer))
    core.do(publish("t", "b"))
    core.do(publish("t", "c", pointer=pointer))
    core.do(publish("t", "d"))
    a, b, c, d = core.page("t").ids
    assert [waits_at(core, after) for after in (FIRST, a, b, c, d)] == [a, c, c, None, None]
    for after, seen in ((FIRST, []), (a, ["b"]), (b, []), (c, ["d"]), (d, [])):
        assert core.read("t", after=after, committed=True) == seen


def test_expired_is_decided() -> None:
    core, pointer = begun(ttl_seconds=10)
    core.do(short("a", pointer=pointer))
    core.do(publish("t", "b"))
    core.do(publish("t", "c", pointer=pointer))
    core.do(publish("t", "d"))
    a, _, c, _ = core.page("t").ids
    assert waits_at(core) == a
    core.now_ms += 1001
    assert waits_at(core) == c
    page = core.page("t", committed=True)
    assert (page.payloads, page.expired, page.blocked) == ([b"b"], 1, True)
    core.now_ms += 9000
    core.do(publish("t", "e"))
    assert waits_at(core) is None
    assert core.read("t", committed=True) == ["e"]


def test_stored_payloads_are_over_one_by_one() -> None:
    core, pointer = begun()
    stored = [LoggedMessage(b"a", 1), LoggedMessage(b"b", 3)]
    core.store(pointer, *stored)
    core.do(publish("t", pointer=pointer))
    core.do(publish("t", "z"))
    first = core.page("t").ids[0]
    core.now_ms += 1001
    assert waits_at(core) == first[:10] + bytes(10)
    page = core.page("t", committed=True)
    assert (page.payloads, page.next_position, page.blocked) == ([], first, True)
    assert waits_at(core, page.next_position) == first[:10] + bytes(10)
    core.now_ms += 2000
    assert waits_at(core) is None
    assert core.read("t", committed=True) == core.read("t", after=page.next_position, committed=True) == ["z"]


def test_one_look_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "SCAN_ROWS_MAX", 3)
    core, pointer = begun()
    core.do(short("a", "b", "c", "d", "e", pointer=pointer))
    core.do(publish("t", "f", pointer=pointer))
    ids = core.page("t").ids
    core.now_ms += 1001
    assert waits_at(core) == ids[3]
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        found = visibility.first_uncommitted(snapshot, TransactionView(snapshot), topic, now_ms=core.now_ms)
        assert found is not None and found.pointer is None
        stable = bulk.last_stable(snapshot, topic, found)
    assert waits_at(core, stable) == ids[5]
