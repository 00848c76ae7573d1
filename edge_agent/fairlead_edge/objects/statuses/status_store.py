"""Reported statuses beside the objects: the port, the rules by which they may be reported, what both stores decide.

A status is of one UID: it goes with its object, in the same transaction, and is never shown on one that was made again
under its name.  ``patch`` is judged inside the transaction that makes it, by the rules the hub sent last; these are
kept on disk, and so hold offline, too.  What a rule selects by Pods (``bound``, ``referenced``) is not judged here: the
hub judges each report again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses import reported
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch, check_identity
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus, State
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest
from fairlead_wire.objects.resource import Resource

RULES_NAMED_MAX: Final = 3
_decoder = msgspec.json.Decoder(list[message.StatusRule])

Rules = tuple[message.StatusRule, ...]


class KnownStatusRules(msgspec.Struct, frozen=True):
    """The rules as the hub sent them, and their digest."""

    digest: str = ""
    rules: Rules = ()


def read(content: bytes, announced: str) -> KnownStatusRules:
    """Raises ``Malformed``."""
    if not announced:
        return KnownStatusRules()
    if digest.content_digest(content) != announced:
        raise Malformed("the rules of statuses do not match their digest")
    rules = peer_json.decode(_decoder, content)
    if len(rules) > message.STATUS_RULES_MAX:
        raise Malformed(f"{len(rules)} rules of statuses, at most {message.STATUS_RULES_MAX} are taken")
    return KnownStatusRules(announced, tuple(rules))


def unpacked(header: message.StatusRules, content: bytes) -> bytes:
    """Raises ``Malformed``, ``FrameTooLarge``."""
    return codec.unpack(header.encoding, content, message.STATUS_RULES_BYTES_MAX)


def refusal(known: KnownStatusRules, group: str, kind: str, namespace: str, labels: Mapping[str, str]) -> str:
    """Why status of this object may not come from here; empty when it may."""
    covering = [each for each in known.rules if _covers(each, group, kind, namespace, labels)]
    if any(each.allowed for each in covering):
        return ""
    if covering:
        named = list(dict.fromkeys(each.rule for each in covering))
        more = ", …" if len(named) > RULES_NAMED_MAX else ""
        those = ", ".join(named[:RULES_NAMED_MAX]) + more
        which = f"SyncRule {those} sends it here" if len(named) == 1 else f"SyncRules {those} send it here"
        return f"{which} without statusFromEdge: true in the entry for {kind}"
    shown = f"{kind}.{group}" if group else kind
    return f"no SyncRule known here has statusFromEdge: true in a resources entry for {shown} that selects it"


def any_of(known: KnownStatusRules, group: str, kind: str) -> bool:
    """May the status of some objects of this kind be reported from here?"""
    return any(each.allowed and (each.group, each.kind) == (group, kind) for each in known.rules)


def _covers(rule: message.StatusRule, group: str, kind: str, namespace: str, labels: Mapping[str, str]) -> bool:
    if (rule.group, rule.kind) != (group, kind):
        return False
    if rule.namespaces is not None and namespace not in rule.namespaces:
        return False
    return all(_holds(term, labels) for term in rule.labels)


def _holds(term: message.LabelTerm, labels: Mapping[str, str]) -> bool:
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return term.key not in labels or labels[term.key] not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels


STATUSES_MAX: Final = 4096
"""Objects whose status is kept, sent or not."""
STATUSES_BYTES_MAX: Final = 32 * 1024 * 1024
"""Total size of the kept statuses."""
FULL_RETRY_SECONDS: Final = 30

Key = tuple[str, str, str, str]
"""(group, plural, namespace, name)."""


class StatusSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One reported status without its content, for people and for the sender."""

    key: Key
    uid: str
    sequence: int
    state: State
    at: float
    code: str = ""
    reason: str = ""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """The newest status of an object, as it goes up."""

    resource: Resource
    uid: str
    sequence: int
    force: message.Force
    status: bytes


class StatusStore(Protocol):
    """Port.  Twins: ``memory_statuses`` and ``io.objects.sqlite_statuses``; one conformance suite."""

    @property
    def known(self) -> KnownStatusRules:
        """The rules in force; kept over restarts."""

    def listen(self, listener: Callable[[StatusSummary], None]) -> None:
        """Call ``listener`` with each status that was patched."""

    async def replace_rules(self, content: bytes, digest: str) -> None:
        """These rules are in force from now on.  Raises ``Malformed``."""

    async def patch(self, key: Key, version: str, kind: Kind, patch: StatusPatch, now: float) -> HeldObject:
        """Patch the status durably; returns the object with it.  Raises ``PatchRefused``."""

    async def lines(self) -> list[StatusSummary]:
        """All statuses by their sequence: the one changed longest ago first."""

    async def outgoing(self, key: Key) -> Outgoing | None:
        """What waits to be sent for this object; None: nothing any more."""

    async def settle(self, key: Key, uid: str, sequence: int, *, code: str = "", reason: str = "") -> None:
        """Note the hub's answer: the cluster has the status, or never will (``code``)."""


def decide(
    held: HeldObject | None,
    kept: EdgeReportedStatus | None,
    *,
    key: Key,
    version: str,
    kind: Kind,
    patch: StatusPatch,
    known: KnownStatusRules,
    sequence: int,
    now: float,
) -> tuple[HeldObject, EdgeReportedStatus | None]:
    """The object that is patched, and its new status (None: no change).  Raises ``PatchRefused``."""
    if held is None or held.resource.version != version:
        group, plural, _, name = key
        raise PatchRefused(404, f'{plural}{f".{group}" if group else ""} "{name}" not found')
    metadata: dict[str, Any] = msgspec.json.decode(held.content)["metadata"]
    why = refusal(known, kind.group, kind.kind, held.resource.namespace, metadata.get("labels") or {})
    if why:
        shown = f"{kind.plural}/{held.resource.name}"
        raise PatchRefused(403, f"status of {shown} may not be reported here: {why}")
    check_identity(patch, held, kind.kind)
    return held, reported.patched(held, kept, patch, sequence=sequence, now=now)


def with_status(held: HeldObject, kept: EdgeReportedStatus | None) -> HeldObject:
    """The object as clients see it."""
    if kept is None or kept.uid != held.uid:
        return held
    return msgspec.structs.replace(held, status=kept.status, report=kept.described)


def check_room(count: int, bytes: int) -> None:
    """Raises ``PatchRefused`` when there is no room: ``count`` is of other statuses, ``bytes`` includes this one."""
    if count >= STATUSES_MAX:
        raise full(f"statuses of {STATUSES_MAX} objects are kept already")
    if bytes > STATUSES_BYTES_MAX:
        raise full(f"the statuses kept would take more than {STATUSES_BYTES_MAX} bytes")


def full(reason: str) -> PatchRefused:
    """The refusal when nothing can be stored now; there may be room later."""
    return PatchRefused(507, reason, retry_after=FULL_RETRY_SECONDS)


def line(key: Key, kept: EdgeReportedStatus) -> StatusSummary:
    return StatusSummary(
        key=key, uid=kept.uid, sequence=kept.sequence, state=kept.state, at=kept.at, code=kept.code, reason=kept.reason
    )


def outgoing(held: HeldObject | None, kept: EdgeReportedStatus | None) -> Outgoing | None:
    if held is None or kept is None or kept.uid != held.uid or kept.state != "waiting":
        return None
    return Outgoing(resource=held.resource, uid=kept.uid, sequence=kept.sequence, force=kept.force, status=kept.status)
