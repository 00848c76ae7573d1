"""The SyncController's decisions: what a record should say of what an edge holds, by content first, versions second.

Versions are ordered only within one life of the API server: after a restore they go back, so equal content is in sync
whatever the versions say (seed: reliable message delivery, "SyncController").
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairlead_hub.cluster.content import HeldCopy, LiveObject
from fairlead_hub.status.object_sync import NODE_AWAY, PAUSED, Record, State
from fairlead_wire.objects.resource import is_comparable, is_newer

_AWAY = "the node is away"
_NO_RETRY: dict[str, Any] = {"retries": 0, "next_retry_time": ""}
Said = tuple[str, str, State]
"""(held version, wanted version, state)"""


def record_of_held(before: Record | None, held: HeldCopy, live: LiveObject | None) -> Said | None:
    """What to write for an object the edge holds; None when the record tells the truth already."""
    if live is None:
        # Not wanted any more: its delete is on the way, or waits until we are certain.
        state: State = "Deleting"
        if before is not None and before.digest == held.digest and before.state in ("Synced", "Deleting"):
            return None
        return held.version, before.wanted_version if before else "", state
    if held.digest != live.digest:
        if before is not None and before.digest == held.digest and before.state == "Pending":
            return None
        if before is not None and before.digest == held.digest and before.wanted_version == before.version:
            return None  # behind, but truthful about what is held; the ack is about to come
        return held.version, live.version, "Pending"
    if before is None or before.digest != live.digest or before.state != "Synced":
        return live.version, live.version, "Synced"
    if (before.reason == PAUSED) is not bool(live.paused):
        return live.version, live.version, "Synced"
    if before.version != before.wanted_version or not is_comparable(before.version):
        return live.version, live.version, "Synced"
    if is_newer(before.version, live.seen_version):
        return live.version, live.version, "Synced"  # the API server was restored from an older copy
    return None


def record_of_away(before: Record, live: LiveObject | None, *, refresh: bool) -> Record | None:
    """What the ObjectSync of a node that is away should say, by what it says (``before`` itself: that is right).

    None: it should not be there.  ``refresh``: also when only the wanted version is a newer one than it names.
    """
    if live is None:
        if not before.version:
            return None  # it was never held, and is not wanted any more
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
        return before  # it says more: why the node did not take this very content
    is_told = before.state == "Behind" and (before.reason == PAUSED) is bool(live.paused)
    if is_told and (before.wanted_version == live.version or not refresh):
        return before
    return behind(before, live)


def kept(before: Record, paused: str) -> Record:
    """The same of a node that is away and keeps what no rule selects any more; ``paused``: why its user wants that."""
    reason = PAUSED if paused else ""
    return replace(before, state="Synced", wanted_version=before.version, reason=reason, message=paused, **_NO_RETRY)


def behind(record: Record, live: LiveObject) -> Record:
    """The same of a node that is away and should hold this instead."""
    reason, message = (PAUSED, live.paused) if live.paused else (NODE_AWAY, _AWAY)
    return replace(record, state="Behind", wanted_version=live.version, reason=reason, message=message, **_NO_RETRY)
