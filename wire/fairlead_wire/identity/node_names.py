"""The names in a node's certificate.  The hub sets them, and a signing request may ask for no others.

    node, installation ─▶ NodeNames(common name, DNS names, addresses, URI)

A common name has at most 64 characters (RFC 5280, ub-common-name), the name of a Node at most 253: a longer name is
only the first DNS name.  Both sides look for the identity in this order.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

COMMON_NAME_CHARS_MAX: Final = 64
NODE_NAME_CHARS_MAX: Final = 253
LOCALHOST: Final = "localhost"
LOOPBACK: Final = ("127.0.0.1", "::1")
"""Modules on the same machine reach the agent at these."""
ALLOWED: Final = "use only lower-case letters, digits, '-' and '.'"
"""What a Node's name may have, for errors."""
INSTALLATION_DEFAULT: Final = "fairlead"

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class NodeNames(msgspec.Struct, frozen=True, kw_only=True):
    """``common_name`` is empty if the node's name is too long for one."""

    node: str
    common_name: str
    dns: tuple[str, ...]
    """The node's name first."""
    addresses: tuple[str, ...]
    uri: str


def is_node_name(text: str) -> bool:
    """True if a Kubernetes Node may have this name (RFC 1123 subdomain)."""
    return len(text) <= NODE_NAME_CHARS_MAX and _NODE_NAME.fullmatch(text) is not None


def of(node: str, installation: str = INSTALLATION_DEFAULT) -> NodeNames:
    """The names for this node.  Raises ``ValueError`` if ``node`` cannot be the name of a Node."""
    if not is_node_name(node):
        raise ValueError(f"{node[:NODE_NAME_CHARS_MAX]!r} cannot be the name of a Node")
    return NodeNames(
        node=node,
        common_name=node if len(node) <= COMMON_NAME_CHARS_MAX else "",
        dns=(node, LOCALHOST) if node != LOCALHOST else (LOCALHOST,),
        addresses=LOOPBACK,
        uri=f"spiffe://{installation}/node/{node}",
    )
