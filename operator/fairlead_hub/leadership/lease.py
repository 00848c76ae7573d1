"""Who is the hub: the Lease, and the fencing number that rises with every take-over.

The number is kept in an annotation of the Lease (and, as its lower bound, in ``leaseTransitions``); edges and records
remember the highest they have seen, so a hub that was replaced is obeyed by no node, whatever it believes.

Times in a Lease are other machines' wall clocks and are never compared with ours: a Lease is abandoned when it was
*seen* unchanged for long enough on our own clock (``Rival``), as client-go judges it.  The times we write are for
people.  Everything in a Lease may have been edited: what makes no sense is repaired, never obeyed.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import Any

import msgspec

from fairlead_hub.leadership import holder_pod
from fairlead_hub.leadership.holder_pod import HolderPod

NAME = "fairlead-hub"
FENCE_ANNOTATION = "fairlead.dev/fence"
LEASE_SECONDS = 10
RENEW_SECONDS = 3.0
CLOCK_DRIFT_SECONDS = 1.0
"""How much two machines' clocks may differ over ``ABANDONED_SECONDS_MAX``: a rival waits this much longer."""
ABANDONED_SECONDS_MAX = 60.0
"""The longest that another's ``leaseDurationSeconds`` is waited for, whatever it says."""
FENCE_MAX = 2**52
"""Edges take numbers up to 2**53: the rest is kept for take-overs after a number near this one."""
FENCE_AHEAD_MAX = 100_000
"""Hubs that may have held the Lease since the backup an API server was restored from; more is no memory, but a lie."""
TRANSITIONS_MAX = 2**31 - 2
"""The API server keeps a 32-bit number, and refuses a Lease with a larger one."""

CLAIMS_NEEDED = 3
"""Nodes that must say they have obeyed a number before the hub goes above it; all of them where there are fewer."""
CLAIM_SECONDS = 600.0
"""How long a node's claim counts after it was made last."""


class FenceClaims:
    """What nodes say of the highest number they have obeyed, where that is above the hub's.

    A number is never given back, and honest nodes store the one they obey: one node's word must raise nobody else's.
    Where the Lease was lost or restored all nodes say so, and the number that enough of them have seen is believed.
    ``taken``: the number the Lease was taken under.  Whoever claims what, all claims together raise it by less than
    ``FENCE_AHEAD_MAX`` until a hub takes it anew.
    """

    def __init__(self, taken: int) -> None:
        self._below = taken + FENCE_AHEAD_MAX
        self._claims: dict[str, tuple[int, float]] = {}
        """The highest, no more than can be needed: thousands of nodes may say the same."""

    def heard(self, node: str, fence: int, now: float, *, nodes: Collection[str]) -> int:
        """The highest number that enough nodes have obeyed, or a higher one; 0: too few say anything.

        ``nodes``: the edge Nodes.  No other's claim counts, and no more of them are asked for than there are.
        """
        counting = {n: said for n, said in self._claims.items() if n in nodes and now - said[1] < CLAIM_SECONDS}
        if node in nodes and fence < self._below:
            counting[node] = (fence, now)
        highest = sorted(counting.items(), key=lambda claim: claim[1], reverse=True)[:CLAIMS_NEEDED]
        self._claims = dict(highest)
        needed = max(1, min(CLAIMS_NEEDED, len(nodes)))
        return highest[needed - 1][1][0] if len(highest) >= needed else 0


class TakeLease(msgspec.Struct, frozen=True, kw_only=True):
    """Write this Lease and you are the hub with this number."""

    fence: int
    body: dict[str, Any]


class HeldByOther(msgspec.Struct, frozen=True, kw_only=True):
    """Another process is the hub; look again after this long."""

    holder: str
    seconds: float


class Rival:
    """What was seen of a Lease that another holds, and since when it has not changed, on a clock of our own."""

    def __init__(self) -> None:
        self._seen: dict[str, Any] | None = None
        self._since = 0.0

    def seconds_left(self, current: dict[str, Any], now: float) -> float:
        """Seconds until it counts as abandoned if nothing changes.  ``now``: a clock that counts suspended time."""
        spec = _spec(current)
        if self._seen != spec:
            self._seen, self._since = spec, now
        said = spec.get("leaseDurationSeconds")
        duration = said if isinstance(said, int) else LEASE_SECONDS
        wait = min(max(duration, LEASE_SECONDS), ABANDONED_SECONDS_MAX) + CLOCK_DRIFT_SECONDS
        return self._since + wait - now


def holder_of(current: dict[str, Any] | None) -> str:
    """Empty: none."""
    found = _spec(current).get("holderIdentity")
    return found if isinstance(found, str) else ""


def take(
    current: dict[str, Any] | None,
    *,
    identity: str,
    namespace: str,
    wall: float,
    seconds_left: float,
    at_least: int = 0,
    known: int = 0,
    pod: HolderPod | None = None,
) -> TakeLease | HeldByOther:
    """Take the Lease if it is free, abandoned, or already ours (a restart does not wait for itself).

    ``seconds_left`` is ``Rival``'s answer (0 as well when the holder's Pod has ended), ``known`` the number we hold it
    under already (0: we do not), ``pod`` our own Pod, if we run in one.
    """
    holder = holder_of(current)
    if holder and holder != identity and seconds_left > 0:
        return HeldByOther(holder=holder, seconds=seconds_left)
    last = fence_of(current)
    if known and not is_believable(last, known):
        last = known
    fence = max(last + 1, at_least)
    return TakeLease(fence=fence, body=_body(current, identity, namespace, wall, fence, pod))


def renewed(
    current: dict[str, Any], *, identity: str, wall: float, fence: int, pod: HolderPod | None = None
) -> dict[str, Any] | None:
    """The Lease to write to keep it; None when it is not ours under this number."""
    if holder_of(current) != identity or fence_of(current) != fence:
        return None
    return _body(current, identity, "", wall, fence, pod)


def pod_of_holder(current: dict[str, Any] | None) -> HolderPod | None:
    """The Pod that the Lease's holder runs in, if it says so."""
    return holder_pod.read(_annotations(current), holder_of(current))


def is_ours(current: dict[str, Any], *, identity: str, fence: int) -> bool:
    """No other process took it over since.

    Under a lower number the API server was restored from an older copy; under none, or one that cannot be, it was
    edited by hand.  A newer run with our own identity has a number a little above ours.
    """
    last = fence_of(current)
    return holder_of(current) == identity and (last <= fence or not is_believable(last, fence))


def is_believable(seen: int, fence: int) -> bool:
    """May the hub with number ``fence`` go above a number that a node says to have seen?

    Numbers are never given back: one node with an absurd one could otherwise leave none for any hub.
    """
    return seen - fence <= FENCE_AHEAD_MAX


def released(current: dict[str, Any]) -> dict[str, Any]:
    """The Lease without a holder: the next hub need not wait."""
    return {**current, "spec": {**_spec(current), "holderIdentity": "", "leaseDurationSeconds": 1}}


def fence_of(current: dict[str, Any] | None) -> int:
    """The last number given; where the annotation was lost or makes no sense, what the transitions say at least."""
    text = _annotations(current).get(FENCE_ANNOTATION)
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= len(str(FENCE_MAX)):
        number = int(text)
        if number <= FENCE_MAX:
            return number
    return _transitions(_spec(current))


def _body(
    current: dict[str, Any] | None, identity: str, namespace: str, wall: float, fence: int, pod: HolderPod | None
) -> dict[str, Any]:
    now = _micro(wall)
    spec = dict(_spec(current))
    if spec.get("holderIdentity") != identity or "acquireTime" not in spec:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = min(_transitions(spec) + (1 if current else 0), TRANSITIONS_MAX)
    spec.update(holderIdentity=identity, leaseDurationSeconds=LEASE_SECONDS, renewTime=now)
    metadata = dict(_table((current or {}).get("metadata")) or {"name": NAME, "namespace": namespace})
    metadata["annotations"] = {
        **{key: value for key, value in _annotations(current).items() if key != holder_pod.ANNOTATION},
        FENCE_ANNOTATION: str(fence),
        **holder_pod.written(pod, identity),
    }
    metadata.pop("managedFields", None)
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _annotations(current: dict[str, Any] | None) -> dict[str, Any]:
    return _table(_table((current or {}).get("metadata")).get("annotations"))


def _micro(wall: float) -> str:
    stamp = datetime.datetime.fromtimestamp(wall, datetime.UTC)
    return stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _transitions(spec: dict[str, Any]) -> int:
    found = spec.get("leaseTransitions")
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= TRANSITIONS_MAX else 0


def _spec(current: dict[str, Any] | None) -> dict[str, Any]:
    return _table((current or {}).get("spec"))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
