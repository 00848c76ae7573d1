"""Acks for what the hub sent: which updates and deletes are durable, which are refused, which are still open.

opened(id) ─▶ open ─┬─ settled([(id, outcome)]) ─▶ cumulative ack below the oldest open id, single acks above it
                    └─ refused(id)              ─▶ nack
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_edge.objects.metastore import Outcome, WriteRefused
from fairlead_wire import message


class AckTracker:
    """Of one session; as many open ids as the hub has in flight."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def opened(self, id: int) -> None:
        """An update or delete has begun to arrive."""
        self._open.add(id)

    def refused(self, id: int, refused: WriteRefused) -> message.Nack:
        """It will not be stored, or not now."""
        self._open.discard(id)
        return message.Nack(
            parent_id=id,
            code=refused.code,
            reason=refused.reason,
            permanent=refused.permanent,
            retry_after=refused.retry_after_seconds,
        )

    def settled(self, batch: Iterable[tuple[int, Outcome]]) -> list[message.Ack | message.Nack]:
        """A batch is durable, except what was refused: what to answer, in this order."""
        answers: list[message.Ack | message.Nack] = []
        acked: list[int] = []
        for id, outcome in batch:
            if isinstance(outcome, WriteRefused):
                answers.append(self.refused(id, outcome))
            else:
                self._open.discard(id)
                acked.append(id)
        # An update that still arrives in parts has a lower id than what overtook it: a cumulative ack stays below.
        bound = min(self._open, default=None)
        below = [id for id in acked if bound is None or id < bound]
        if below:
            answers.append(message.Ack(parent_id=max(below), cumulative=True))
        answers.extend(message.Ack(parent_id=id) for id in acked if bound is not None and id > bound)
        return answers
