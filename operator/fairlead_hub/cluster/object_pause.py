"""A pause of one delivered object, by an annotation on the object itself.

    fairlead.dev/paused: "<why>"     no update and no delete of this object is sent to any node while it stands there

The annotation is an instruction to the hub and no part of the delivered content: to set or remove it sends nothing by
itself.  It ends with the object: a deleted object is removed from the nodes
(docs/decisions/0420-pausing-nodes-and-objects.md#a-paused-object-is-sent-to-no-node-the-annotation-is-not-part-of-its-content).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

PAUSED: Final = "fairlead.dev/paused"
WHY_CHARS_MAX: Final = 256
"""Of a pause's reason; an annotation may be a thousand times longer, and is shown in tables."""


def reason(annotations: Mapping[str, str] | None) -> str:
    """Why it is paused, in one line; empty when it is not."""
    why = annotations.get(PAUSED) if annotations else None
    return "" if why is None else " ".join(why.split())[:WHY_CHARS_MAX] or "no reason given"


class _Pausable(Protocol):
    paused: str


def is_changed(before: _Pausable | None, after: _Pausable | None) -> bool:
    """Was it paused, resumed, or paused for another reason?"""
    return (before.paused if before is not None else "") != (after.paused if after is not None else "")
