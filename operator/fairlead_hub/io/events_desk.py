"""Writes happenings as Events.  They are hints: one that cannot be written is counted and left."""

from __future__ import annotations

from fairlead_hub import happenings
from fairlead_hub.io.kube import MERGE_PATCH, Kube, Refused, Unavailable
from fairlead_wire.io import logs

_log = logs.get("hub.events")


async def write(kube: Kube, noted: happenings.Happenings, hub: str) -> int:
    """Create or update what is waiting; returns how many were written."""
    written = 0
    for happening in noted.take():
        namespace = happening.regarding.namespace or "default"
        root = f"api/v1/namespaces/{namespace}/events"
        try:
            if happening.created:
                change = {
                    "count": happening.count,
                    "lastTimestamp": happening.last,
                    "message": happening.message[:1024],
                }
                await kube.request("PATCH", f"{root}/{happening.name}", change, content_type=MERGE_PATCH, attempts=1)
            else:
                await kube.request("POST", root, happenings.body(happening, hub), attempts=1)
                happening.created = True
        except (Refused, Unavailable) as error:
            noted.dropped += 1
            _log.debug("event_dropped", reason=str(error))
        else:
            written += 1
    return written
