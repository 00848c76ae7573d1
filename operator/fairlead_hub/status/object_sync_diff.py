"""The SyncController's decisions: what a record should say of what an edge holds, by content first, versions second.

Versions are ordered only within one life of the API server: after a restore they go back, so equal content is in sync
whatever the versions say (seed: reliable message delivery, "SyncController").
"""

from __future__ import annotations

from fairlead_hub.cluster.content import Held, LiveObject
from fairlead_hub.status.object_sync import Record, State
from fairlead_wire import version as wire_version

Said = tuple[str, str, State]
"""(held version, wanted version, state)"""


def record_of_held(before: Record | None, held: Held, live: LiveObject | None) -> Said | None:
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
    if before.version != before.wanted_version or not wire_version.is_comparable(before.version):
        return live.version, live.version, "Synced"
    if wire_version.is_newer(before.version, live.seen_version):
        return live.version, live.version, "Synced"  # the API server was restored from an older copy
    return None
