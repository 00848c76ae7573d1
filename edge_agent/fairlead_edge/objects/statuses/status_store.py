"""Reported statuses: the port of their store, the rules by which they may be reported, and decisions of both stores.

A status belongs to one UID: it is removed with its object, in the same transaction, and is never shown on a recreated
object of the same name.  A patch is checked inside the transaction that makes it, by the rules that the hub sent last;
these are on disk, so they also apply offline.  Selection by Pods (``bound``, ``referenced``) is not checked here,
because the hub checks each report again.
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
    """The rules that the hub sent, and their digest."""

    digest: str = ""
    rules: Rules = ()


def read(content: bytes, announced: str) -> KnownStatusRules:
    """Parse the rules.  Raises ``Malformed``."""
    if not announced:
        return KnownStatusRules()
    if digest.content_digest(content) != announced:
        raise Malformed("the rules for statuses do not match their digest")
    rules = peer_json.decode(_decoder, content)
    if len(rules) > message.STATUS_RULES_MAX:
        raise Malformed(f"{len(rules)} rules for statuses, at most {message.STATUS_RULES_MAX} are accepted")
    return KnownStatusRules(announced, tuple(rules))


def unpacked(header: message.StatusRules, content: bytes) -> bytes:
    """The unpacked rules.  Raises ``Malformed``, ``FrameTooLarge``."""
    return codec.unpack(header.encoding, content, message.STATUS_RULES_BYTES_MAX)


def refusal(known: KnownStatusRules, group: str, kind: str, namespace: str, labels: Mapping[str, str]) -> str:
    """Why the status of this object may not be reported on this node; empty if it may."""
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
    """Whether the status of some objects of this kind may be reported on this node."""
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
"""How many statuses are stored, sent or not."""
STATUSES_BYTES_MAX: Final = 32 * 1024 * 1024
"""The total size of the stored statuses."""
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
    """The newest status of an object, as it is sent to the hub."""

    resource: Resource
    uid: str
    sequence: int
    force: message.Force
    status: bytes


class StatusStore(Protocol):
    """The port, implemented by ``memory_metastore`` and ``io.objects.sqlite_statuses``; one conformance suite."""

    @property
    def known(self) -> KnownStatusRules:
        """The rules in force; they survive restarts."""

    def listen(self, listener: Callable[[StatusSummary], None]) -> None:
        """Call ``listener`` with each patched status."""

    async def replace_rules(self, content: bytes, digest: str) -> None:
        """Put these rules in force.  Raises ``Malformed``."""

    async def patch(self, key: Key, version: str, kind: Kind, patch: StatusPatch, now: float) -> HeldObject:
        """Patch the status durably; returns the object with it.  Raises ``PatchRefused``."""

    async def lines(self) -> list[StatusSummary]:
        """All statuses by their sequence, the least recently changed first."""

    async def outgoing(self, key: Key) -> Outgoing | None:
        """The status to send for this object; None if none is waiting any more."""

    async def settle(self, key: Key, uid: str, sequence: int, *, code: str = "", reason: str = "") -> None:
        """Record the hub's answer: the cluster has the status, or refused it permanently (``code``)."""


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
    """The object to patch, and its new status (None: no change).  Raises ``PatchRefused``."""
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
    """The object with its reported status, as clients see it."""
    if kept is None or kept.uid != held.uid:
        return held
    return msgspec.structs.replace(held, status=kept.status, report=kept.described)


def check_room(count: int, bytes: int) -> None:
    """Raises ``PatchRefused`` if there is no room.  ``count``: other statuses; ``bytes``: of all, with this one."""
    if count >= STATUSES_MAX:
        raise full(f"the statuses of {STATUSES_MAX} objects are already stored")
    if bytes > STATUSES_BYTES_MAX:
        raise full(f"the stored statuses would take more than {STATUSES_BYTES_MAX} bytes")


def full(reason: str) -> PatchRefused:
    """The refusal if there is no room; a retry may succeed."""
    return PatchRefused(507, reason, retry_after=FULL_RETRY_SECONDS)


def line(key: Key, kept: EdgeReportedStatus) -> StatusSummary:
    return StatusSummary(
        key=key, uid=kept.uid, sequence=kept.sequence, state=kept.state, at=kept.at, code=kept.code, reason=kept.reason
    )


def outgoing(held: HeldObject | None, kept: EdgeReportedStatus | None) -> Outgoing | None:
    if held is None or kept is None or kept.uid != held.uid or kept.state != "waiting":
        return None
    return Outgoing(resource=held.resource, uid=kept.uid, sequence=kept.sequence, force=kept.force, status=kept.status)
