"""A reportable transition of one of our documents, for a Kubernetes Event; the hub passes it on."""

from __future__ import annotations

from typing import Literal

import msgspec

Type = Literal["Normal", "Warning"]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One transition.  ``reason`` is for programs, ``message`` for people."""

    kind: str
    namespace: str = ""
    name: str
    type: Type
    reason: str
    message: str


def of_node(node: str, type: Type, reason: str, message: str) -> Notice:
    """A notice about a node: the Event names its EdgeNode."""
    return Notice(kind="EdgeNode", name=node, type=type, reason=reason, message=message)
