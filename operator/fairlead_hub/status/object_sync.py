"""ObjectSync and ClusterObjectSync: what one node holds of one object, as a record in the API.

The edge's own store is authoritative; a record may lag, never lead.  Names are ``<node>.<object uid>`` (seed: reliable
message delivery, "ReliableSync CRD"); a name or label that would be too long is truncated and ends in eight hex digits
of its SHA-256.

What a record should say is decided by content first and by version second: versions are ordered only until the API
server is restored from a backup, so equal content is in sync whatever the versions are (same seed,
"SyncController").
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal, cast, get_args

import msgspec
from msgspec.structs import replace

from fairlead_hub.cluster.content import GroupKind, HeldCopy, LiveObject
from fairlead_wire.objects import api_group
from fairlead_wire.objects import resource as wire_version

NODE_LABEL = "fairlead.dev/node"
KIND_LABEL = "fairlead.dev/kind"
NAME_CHARS_MAX = 253
LABEL_CHARS_MAX = 63

State = Literal["Synced", "Pending", "Behind", "Parked", "Deleting"]
STATES: Final[frozenset[str]] = frozenset(get_args(State))
PAUSED: Final = "Paused"
"""Reason if delivery waits because the object or the node is paused; the message says why."""
NODE_AWAY: Final = "NodeAway"
"""Reason if delivery waits because the node is away."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All fields of a record; times are RFC 3339 text, or empty."""

    node: str
    api_version: str
    kind: str
    namespace: str
    object_name: str
    uid: str
    version: str
    """The version the edge last acknowledged as durable; empty if there is none yet."""
    digest: str
    wanted_version: str
    state: State
    reason: str = ""
    message: str = ""
    retries: int = 0
    next_retry_time: str = ""
    last_ack_time: str = ""

    @property
    def name(self) -> str:
        return name_of(self.node, self.uid)

    @property
    def group_kind(self) -> GroupKind:
        return self.api_version.rpartition("/")[0], self.kind

    def says_the_same(self, other: Record) -> bool:
        """Whether nothing that matters to a reader differs; a later ack of the same content is no reason to write."""
        message = other.message if self.reason in (PAUSED, "Kept") else self.message
        same = msgspec.structs.replace(other, last_ack_time=self.last_ack_time, message=message)
        return self == same


def name_of(node: str, uid: str) -> str:
    return shortened(f"{node}.{uid}", NAME_CHARS_MAX)


def shortened(text: str, limit: int) -> str:
    """The text itself, or truncated, with ``-`` and eight hex digits of its SHA-256."""
    if len(text) <= limit:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - 9].rstrip('-._')}-{mark}"


def head(record: Record) -> dict[str, Any]:
    """The body to create: identity, labels, spec.  The status follows through its subresource."""
    metadata: dict[str, Any] = {
        "name": record.name,
        "labels": {
            NODE_LABEL: shortened(record.node, LABEL_CHARS_MAX),
            KIND_LABEL: shortened(record.kind, LABEL_CHARS_MAX),
        },
    }
    if record.namespace:
        metadata["namespace"] = record.namespace
    return {
        "apiVersion": api_group.API_VERSION,
        "kind": "ObjectSync" if record.namespace else "ClusterObjectSync",
        "metadata": metadata,
        "spec": {
            "nodeName": record.node,
            "objectAPIVersion": record.api_version,
            "objectKind": record.kind,
            "objectName": record.object_name,
            "objectUID": record.uid,
        },
    }


def status(record: Record, before: list[dict[str, Any]], generation: int, now: str, fence: int) -> dict[str, Any]:
    """The status subresource; ``before`` are the conditions last written, ``now`` is RFC 3339."""
    synced = record.state == "Synced"
    parked = record.state == "Parked"
    reason = record.reason or ("Acknowledged" if synced else record.state)
    stalled = (reason, record.message) if parked else ("NotParked", "")
    return {
        "objectResourceVersion": record.version,
        "objectDigest": record.digest,
        "wantedResourceVersion": record.wanted_version,
        "state": record.state,
        "reason": record.reason,
        "retries": record.retries,
        "nextRetryTime": record.next_retry_time or None,
        "lastAckTime": record.last_ack_time or None,
        "fence": fence,
        "conditions": [
            condition("Synced", synced, reason, record.message, before, generation, now),
            condition("Stalled", parked, *stalled, before, generation, now),
        ],
    }


def condition(
    type: str, holds: bool, reason: str, message: str, before: list[dict[str, Any]], generation: int, now: str
) -> dict[str, Any]:
    """One condition; its transition time changes only with its status."""
    value = "True" if holds else "False"
    since = next(
        (
            c["lastTransitionTime"]
            for c in (before if isinstance(before, list) else ())
            if isinstance(c, dict)
            and c.get("type") == type
            and c.get("status") == value
            and isinstance(c.get("lastTransitionTime"), str)
        ),
        None,
    )
    return {
        "type": type,
        "status": value,
        "reason": _camel(reason),
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }


def _camel(reason: str) -> str:
    """Condition reasons are CamelCase by convention: ``digest_mismatch`` → ``DigestMismatch``."""
    return (
        "".join(part[:1].upper() + part[1:] for part in reason.replace("-", "_").replace(" ", "_").split("_"))
        or "Unknown"
    )


def parse(body: dict[str, Any]) -> Record | None:
    """Parse a record from the API; None if it is not one of ours (made by hand, no UID).  Never raises."""
    spec, found = body.get("spec"), body.get("status") or {}
    metadata = body.get("metadata") or {}
    if (
        not isinstance(spec, dict)
        or not isinstance(found, dict)
        or not spec.get("nodeName")
        or not spec.get("objectUID")
    ):
        return None
    state = found.get("state")
    if not isinstance(state, str) or state not in STATES:
        state = "Pending"
    return Record(
        node=_text(spec.get("nodeName")),
        api_version=_text(spec.get("objectAPIVersion")),
        kind=_text(spec.get("objectKind")),
        namespace=_text(metadata.get("namespace")),
        object_name=_text(spec.get("objectName")),
        uid=_text(spec.get("objectUID")),
        version=_text(found.get("objectResourceVersion")),
        digest=_text(found.get("objectDigest")),
        wanted_version=_text(found.get("wantedResourceVersion")),
        state=cast(State, state),
        reason=_text(found.get("reason")),
        message=_message(found.get("conditions")),
        retries=found["retries"] if isinstance(found.get("retries"), int) else 0,
        next_retry_time=_text(found.get("nextRetryTime")),
        last_ack_time=_text(found.get("lastAckTime")),
    )


def _message(conditions: Any) -> str:
    """The message of a record."""
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict) and each.get("type") == "Synced":
            return _text(each.get("message"))
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_AWAY = "the node is away"
_NO_RETRY: dict[str, Any] = {"retries": 0, "next_retry_time": ""}
Said = tuple[str, str, State]
"""(held version, wanted version, state)"""


def record_of_held(before: Record | None, held: HeldCopy, live: LiveObject | None) -> Said | None:
    """What to write for an object the edge holds; None if the record is already correct."""
    if live is None:
        # No longer wanted: its delete is on the way, or waits until that is certain.
        state: State = "Deleting"
        if before is not None and before.digest == held.digest and before.state in ("Synced", "Deleting"):
            return None
        return held.version, before.wanted_version if before else "", state
    if held.digest != live.digest:
        if before is not None and before.digest == held.digest and before.state == "Pending":
            return None
        if before is not None and before.digest == held.digest and before.wanted_version == before.version:
            return None  # behind, but correct about what is held; the ack is about to arrive
        return held.version, live.version, "Pending"
    if before is None or before.digest != live.digest or before.state != "Synced":
        return live.version, live.version, "Synced"
    if (before.reason == PAUSED) is not bool(live.paused):
        return live.version, live.version, "Synced"
    if before.version != before.wanted_version or not wire_version.is_comparable(before.version):
        return live.version, live.version, "Synced"
    if wire_version.is_newer(before.version, live.seen_version):
        return live.version, live.version, "Synced"  # the API server was restored from an older copy
    return None


def record_of_away(before: Record, live: LiveObject | None, *, refresh: bool) -> Record | None:
    """What the ObjectSync of an away node should say, given what it says (``before`` itself if that is correct).

    None: it should not exist.  ``refresh``: also update it if only the wanted version is newer.
    """
    if live is None:
        if not before.version:
            return None  # it was never held and is no longer wanted
        if before.state == "Deleting":
            return before
        return replace(before, state="Deleting", wanted_version="", reason=NODE_AWAY, message=_AWAY, **_NO_RETRY)
    if before.version and before.digest == live.digest:
        held = HeldCopy(live.path, live.uid, before.digest, before.version)
        said = record_of_held(before, held, live)
        if said is None:
            return before
        reason, message = (PAUSED, live.paused) if live.paused else ("", "")
        version, wanted, state = said
        return replace(
            before, version=version, wanted_version=wanted, state=state, reason=reason, message=message, **_NO_RETRY
        )
    if before.state == "Parked" and before.wanted_version == live.version and not live.paused:
        return before  # it says more: why the node refused this very content
    is_told = before.state == "Behind" and (before.reason == PAUSED) is bool(live.paused)
    if is_told and (before.wanted_version == live.version or not refresh):
        return before
    return behind(before, live)


def kept(before: Record, paused: str) -> Record:
    """The record of an away node that keeps what no rule selects any more; ``paused``: why its user wants that."""
    reason = PAUSED if paused else ""
    return replace(before, state="Synced", wanted_version=before.version, reason=reason, message=paused, **_NO_RETRY)


def behind(record: Record, live: LiveObject) -> Record:
    """The record of an away node that should hold this object instead."""
    reason, message = (PAUSED, live.paused) if live.paused else (NODE_AWAY, _AWAY)
    return replace(record, state="Behind", wanted_version=live.version, reason=reason, message=message, **_NO_RETRY)
