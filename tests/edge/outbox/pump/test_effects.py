"""What the pump wants: values, so that a driver can keep them, compare them and perform them later."""

from __future__ import annotations

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.pump.pump import Pump
from fairlead_edge.outbox.pump.stream import Fetch, PumpWait, SendBatch
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.routes.endpoints import UPSTREAM


def test_the_same_situation_wants_the_same() -> None:
    """Nothing of the pump's own state is shared with what it hands out."""

    def run() -> tuple[PumpWait | Fetch, object, PumpWait | Fetch]:
        pump = Pump(UPSTREAM, uniform=lambda: 0.5)
        pump.found(QueueId(UPSTREAM, 3), 41)
        pump.link_up(8)
        fetch = pump.next(0)
        assert isinstance(fetch, Fetch)
        return fetch, pump.fetched(fetch, [Item(42, 1, "t", 0.0, None, b"x")], 0), pump.next(0)

    fetch, send, wait = run()
    assert run() == (fetch, send, wait)
    assert isinstance(send, SendBatch) and [item.offset for item in send.items] == [42] and wait == PumpWait()
