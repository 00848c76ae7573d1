"""Who sees what: the three answers for a row's pointer."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import Core

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log.rows import RowState
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Abort, Commit, Start
from fairlead_messaging.server.transactions.transaction import TransactionView
from fairlead_messaging.server.transactions.visibility import TransactionSnapshot


def test_decisions() -> None:
    """Committed, aborted, open, rolled back; by the service's and by a transaction's own judgement."""
    core = Core()
    committed, aborted, open_ = (core.do(Start(timeout_seconds=5)).transaction.pointer for _ in range(3))
    core.do(Commit(pointer=committed, changes=[]))
    core.do(Abort(pointer=aborted))
    mine = core.do(Start(timeout_seconds=5))
    later = core.do(Start(timeout_seconds=5)).transaction.pointer
    core.do(Commit(pointer=later, changes=[]))
    core.do(Commit(pointer=open_, changes=[]))
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
    """Opaque, but checked when they come back."""
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
