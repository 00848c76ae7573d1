"""What an endpoint wants done."""

from __future__ import annotations

from fairlead_edge.outbox.brokered.priority import BrokeredSettle
from fairlead_edge.outbox.outbox import Refusal
from fairlead_edge.outbox.queues import QueueId


def test_settlement_names_all_it_is_about() -> None:
    """Acknowledged and refused alike."""
    settle = BrokeredSettle(queue=QueueId("e"), sent=(1, 3), refused=(Refusal(2, "code", "why"),), checkpoint=3)
    assert settle.offsets == (1, 3, 2)
