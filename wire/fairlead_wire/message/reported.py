"""Status of objects that programs on a node report: which of it is allowed, and the newest of each object."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import msgspec

from fairlead_wire.message.header import Encoding, Header, Id, Name, Uid

STATUS_BYTES_MAX = 256 * 1024
"""Of the status of one object, as JSON."""
STATUS_RULES_MAX = 1024
"""Entries of SyncRules that a node gets to know."""
STATUS_RULES_BYTES_MAX = 1024 * 1024
FIELD_MANAGER_PREFIX = "fairlead-edge-"
FIELD_MANAGER_CHARS_MAX = 128
"""What Kubernetes takes."""

Force = Literal["", "cluster", "all"]
_FORCES: tuple[Force, ...] = ("", "cluster", "all")


class LabelTerm(msgspec.Struct, frozen=True, array_like=True):
    """One requirement of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class StatusRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of a SyncRule that sends objects to this node; ``allowed``: their status may come from it.

    ``namespaces`` None: all.  What the entry selects besides (``bound``, ``referenced``) the hub alone judges.
    """

    rule: str
    group: str = ""
    kind: str
    namespaces: list[str] | None = None
    labels: list[LabelTerm] = []
    allowed: bool = False


class StatusRules(Header, frozen=True, kw_only=True, tag="rules"):
    """Hub: of which objects status is taken from now on (content: JSON array of ``StatusRule``, ``digest`` its hex
    SHA-256; both empty: of none).  Only to edges whose hello says which rules they hold."""

    digest: Name = ""
    encoding: Encoding = ""


class Report(Header, frozen=True, kw_only=True, tag="report"):
    """Edge: the status of this object, as far as programs of this node own it (content: a JSON object).

    Only to hubs whose welcome says that they take it, and one at a time for each object; answered by ack (the API
    server has it) or nack.  ``force``: what it may take over from others: nothing, what was written in the cluster,
    or also what other nodes own.
    """

    id: Id
    resource: str
    uid: Uid
    force: Force = ""
    encoding: Encoding = ""


def stronger(first: Force, second: Force) -> Force:
    """Of two ``force``, the one that takes over more."""
    return max(first, second, key=_FORCES.index)


def field_manager(node: str) -> str:
    """Under which name the hub writes what a node reported."""
    name = f"{FIELD_MANAGER_PREFIX}{node}"
    if len(name) <= FIELD_MANAGER_CHARS_MAX:
        return name
    end = sha256(node.encode()).hexdigest()[:8]
    return f"{name[: FIELD_MANAGER_CHARS_MAX - 9]}-{end}"
