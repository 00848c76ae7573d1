"""Decides when a handshake may begin, and whether its hello may open a session.

    the kernel's queue ──may_begin──▶ slot ──end, or slot_seconds──▶ the next
    hello ──refusal, stale──▶ protocol, the name in its certificate, the edge Node, the fencing number it has obeyed

A handshake (TLS, upgrade, hello) costs milliseconds of CPU on both sides.  If two thousand nodes return at once and all
handshakes start together, each waits for all others, they time out half-way, and the work is repeated.  With slots, the
handshakes that have started finish soon, and those that wait have cost nothing yet.  A silent peer keeps its slot for
``slot_seconds`` and continues without it: so slow links do not delay the others, silent peers cannot, and the number
under way is bounded by slots × (time limit of a handshake / ``slot_seconds``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from fairlead_hub import leadership
from fairlead_wire import message
from fairlead_wire.objects import api_group

NODE_GONE_RETRY_SECONDS = 30.0
BUSY_RETRY_SECONDS = 5.0
STALE_RETRY_SECONDS = 10.0
"""Number of attempts after which a node gives up its number: each may cost a handshake on a metered link."""
STALE_HUB = "stale_hub"
SLOT_SECONDS: Final = 3.0
"""A handshake that takes longer waits for its peer, not for us."""


def refusal(
    node: str, hello: message.Hello, *, nodes: Collection[str] | None, others: int, nodes_max: int
) -> message.Refuse | None:
    """Why this hello is refused, and when to retry; None if it is welcome.

    ``node`` is the name in the certificate, ``nodes`` the edge Nodes (None: not listed yet, so no node is unknown),
    ``others`` the number of other connected nodes.
    """
    if hello.protocol != message.PROTOCOL:
        reason = f"protocol {hello.protocol} is not supported, only {message.PROTOCOL}"
        return message.Refuse(code="protocol", reason=reason, retry_after=NODE_GONE_RETRY_SECONDS)
    if hello.node != node:
        reason = f"the certificate is {node}'s, the hello says {hello.node}"
        return message.Refuse(code="identity", reason=reason, retry_after=NODE_GONE_RETRY_SECONDS)
    if nodes is not None and node not in nodes:
        return message.Refuse(code="node_unknown", reason=unknown(node), retry_after=NODE_GONE_RETRY_SECONDS)
    if others >= nodes_max:
        reason = f"{nodes_max} nodes are connected already"
        return message.Refuse(code="busy", reason=reason, retry_after=BUSY_RETRY_SECONDS)
    return None


def stale(hello: message.Hello, fence: int, *, approved: bool) -> message.Refuse | None:
    """Why a node that has obeyed a higher fencing number than ours is not served; None if it has not.

    Only for nodes that would be welcome otherwise, since only their claims may count.  ``approved``: a person wants the
    node to give up that number.
    """
    if hello.fence <= fence:
        return None
    if leadership.is_believable(hello.fence, fence):
        reason = f"this edge has obeyed hub {hello.fence}, this is {fence}"
    else:
        reason = f"this edge says it has obeyed hub {hello.fence}, which cannot be: the hub is {fence}"
    wait = 0.0 if approved else STALE_RETRY_SECONDS
    return message.Refuse(code=STALE_HUB, reason=reason, retry_after=wait, fence=fence, approved=approved)


def unknown(node: str) -> str:
    return api_group.no_edge_node(node)


class HandshakeLimiter:
    """Limits how many handshakes run at once.

    Keys are chosen by the caller; ``now`` is always seconds of one monotonic clock.
    """

    def __init__(self, *, slots_max: int, slot_seconds: float = SLOT_SECONDS) -> None:
        self._slots_max, self._slot_seconds = slots_max, slot_seconds
        self._slots: OrderedDict[int, float] = OrderedDict()
        """Key → when it returns its slot at the latest; oldest first."""

    def may_begin(self, now: float) -> bool:
        while self._slots and self.next_slot() <= now:
            self._slots.popitem(last=False)
        return len(self._slots) < self._slots_max

    def next_slot(self) -> float:
        """When a slot becomes free at the latest; only valid after ``may_begin`` returned False."""
        return next(iter(self._slots.values()))

    def begin(self, key: int, now: float) -> None:
        self._slots[key] = now + self._slot_seconds

    def end(self, key: int) -> None:
        """It is done, failed or given up; its slot may have been returned already."""
        self._slots.pop(key, None)
