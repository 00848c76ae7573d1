"""The API group of Fairlead's custom resources, as defined in ``crds``, and the annotations that people set."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from typing import Final

GROUP: Final = "fairlead.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ROOT: Final = f"apis/{API_VERSION}"
"""Path of its resources at an API server, without leading or trailing slash."""

EDGE_LABEL: Final = "node-role.kubernetes.io/edge"
"""The label of Nodes that are edge nodes, with any value."""


SIMILAR_OF_MAX: Final = 1000
"""Names searched for one that may have been meant."""


def no_edge_node(node: str, known: Iterable[str] = ()) -> str:
    """The message for a name without a Node, or whose Node lacks the label: callers seldom know which.

    ``known``: the edge nodes, one of which may have been meant.
    """
    meant = similar(node, known)
    remedy = f"{meant} If" if meant else "; if"
    return f"there is no Node {node} with label {EDGE_LABEL}{remedy} the Node exists: {label(node)}"


def similar(name: str, known: Iterable[str]) -> str:
    """`; did you mean edge-1?` if one of the names is similar, else ""."""
    found = difflib.get_close_matches(name, itertools.islice(known, SIMILAR_OF_MAX), n=1, cutoff=0.8)
    return f"; did you mean {found[0]}?" if found else ""


def label(node: str) -> str:
    """The command that makes a Node an edge node."""
    return f"kubectl label node {node} {EDGE_LABEL}="


# Annotations that instruct the hub.

PAUSED: Final = f"{GROUP}/paused"
"""On an EdgeNode or a delivered object: nothing is sent; the value is the reason."""
APPROVE_DELETIONS: Final = f"{GROUP}/approve-deletions"
"""On an EdgeNode: the id of the deletions stopped by the deletion guard, which may now be sent."""
APPROVE_IDENTITY: Final = f"{GROUP}/approve-identity"
"""On an EdgeNode: the identity that was held back and may be used from now on."""
APPROVE_FENCE: Final = f"{GROUP}/approve-fence"
"""On an EdgeNode: the fencing number that the node may reset."""
RESYNC: Final = f"{GROUP}/resync"
"""On an EdgeNode: any new value makes the node reconnect and compare everything."""
