"""Decides whether a hello may open a session: its protocol, the name in its certificate, and the edge Node."""

from __future__ import annotations

from collections.abc import Collection

from fairlead_hub import leadership
from fairlead_wire import message
from fairlead_wire.objects import api_group

NODE_GONE_RETRY_SECONDS = 30.0
BUSY_RETRY_SECONDS = 5.0
STALE_RETRY_SECONDS = 10.0
"""Number of attempts after which a node gives up its number: each may cost a handshake on a metered link."""
STALE_HUB = "stale_hub"


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
