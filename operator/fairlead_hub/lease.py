"""Who is the hub: the Lease, and the fencing number that rises with every take-over.

The number is kept in ``leaseTransitions`` and an annotation; edges and records remember the highest they have seen,
so a hub that was replaced is obeyed by nobody, however long it believes otherwise.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

NAME = "fairlead-hub"
FENCE_ANNOTATION = "fairlead.dev/fence"
LEASE_SECONDS = 10
RENEW_SECONDS = 3.0
FENCE_AHEAD_MAX = 100_000
"""Hubs that may have held the Lease since the backup an API server was restored from; more is no memory, but a lie."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Write this Lease and you are the hub with this number."""

    fence: int
    body: dict[str, Any]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else is the hub; look again after this long."""

    holder: str
    seconds: float


def take(
    current: dict[str, Any] | None, *, identity: str, namespace: str, wall: float, at_least: int = 0
) -> Taken | Held:
    """Take the Lease if it is free, expired, or already ours (a restart does not wait for itself to expire)."""
    spec = (current or {}).get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if holder and holder != identity:
        left = _renewed(spec) + float(spec.get("leaseDurationSeconds") or LEASE_SECONDS) - wall
        if left > 0:
            return Held(holder=holder, seconds=left)
    fence = max(fence_of(current) + 1, at_least)
    return Taken(fence=fence, body=_body(current, identity, namespace, wall, fence))


def renewed(current: dict[str, Any], *, identity: str, wall: float, fence: int) -> dict[str, Any] | None:
    """The Lease to write to keep it; None when it is no longer ours."""
    spec = current.get("spec") or {}
    if spec.get("holderIdentity") != identity or fence_of(current) != fence:
        return None
    return _body(current, identity, current["metadata"].get("namespace", ""), wall, fence)


def went_back(current: dict[str, Any], *, identity: str, fence: int) -> bool:
    """It is still ours, but under a lower number: the API server was restored from an older copy."""
    return (current.get("spec") or {}).get("holderIdentity") == identity and fence_of(current) < fence


def is_ours(current: dict[str, Any], *, identity: str, fence: int) -> bool:
    """Nobody took it over since."""
    return (current.get("spec") or {}).get("holderIdentity") == identity and fence_of(current) <= fence


def is_believable(seen: int, fence: int) -> bool:
    """May the hub with number ``fence`` go above the number that somebody says to have seen?

    Numbers are never given back: one node with an absurd one could otherwise leave none for anybody.
    """
    return seen - fence <= FENCE_AHEAD_MAX


def released(current: dict[str, Any]) -> dict[str, Any]:
    """The Lease without a holder: the next hub need not wait."""
    return {**current, "spec": {**current["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}


def fence_of(current: dict[str, Any] | None) -> int:
    metadata = (current or {}).get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(FENCE_ANNOTATION, "0")
    return int(text) if text.isdigit() and len(text) <= 16 else 0


def _body(current: dict[str, Any] | None, identity: str, namespace: str, wall: float, fence: int) -> dict[str, Any]:
    now = _micro(wall)
    spec = dict((current or {}).get("spec") or {})
    if spec.get("holderIdentity") != identity or "acquireTime" not in spec:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if current else 0)
    spec.update(holderIdentity=identity, leaseDurationSeconds=LEASE_SECONDS, renewTime=now)
    metadata = dict((current or {}).get("metadata") or {"name": NAME, "namespace": namespace})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), FENCE_ANNOTATION: str(fence)}
    metadata.pop("managedFields", None)
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _micro(wall: float) -> str:
    stamp = datetime.datetime.fromtimestamp(wall, datetime.UTC)
    return stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _renewed(spec: dict[str, Any]) -> float:
    try:
        return datetime.datetime.fromisoformat(str(spec.get("renewTime"))).timestamp()
    except ValueError:
        return 0.0
