"""The API group of Fairlead's custom resources, as the files in ``crds`` define it, and the annotations people set."""

from __future__ import annotations

from typing import Final

GROUP: Final = "fairlead.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ROOT: Final = f"apis/{API_VERSION}"
"""Path of its resources at an API server, without a slash at either end."""

EDGE_LABEL: Final = "node-role.kubernetes.io/edge"
"""On a Node: it is an edge node, whatever the value."""


def no_edge_node(node: str) -> str:
    """For people, where a name has no Node, or one without the label: which of them is seldom known there."""
    return f"there is no Node {node} with label {EDGE_LABEL}; if the Node exists: {label(node)}"


def label(node: str) -> str:
    """The command that makes a Node an edge node."""
    return f"kubectl label node {node} {EDGE_LABEL}="


# Instructions to the hub, as annotations.

PAUSED: Final = f"{GROUP}/paused"
"""On an EdgeNode or a delivered object: the reason why nothing is sent."""
APPROVE_DELETIONS: Final = f"{GROUP}/approve-deletions"
"""On an EdgeNode: the id of the deletions that its deletion guard stopped."""
APPROVE_IDENTITY: Final = f"{GROUP}/approve-identity"
"""On an EdgeNode: the identity that is held back, and may be used from now on."""
APPROVE_FENCE: Final = f"{GROUP}/approve-fence"
"""On an EdgeNode: the fencing number that the node may give up."""
RESYNC: Final = f"{GROUP}/resync"
"""On an EdgeNode: any new value makes the node reconnect and compare everything."""
