"""Decides which process is the hub: the Lease with its fencing number, and whether this process may still act.

The fencing number rises with every take-over.  It is kept in an annotation of the Lease (``leaseTransitions`` is its
lower bound); edges and records remember the highest they have seen, so no node obeys a hub that was replaced.

Times in a Lease are other machines' wall clocks and are never compared with ours.  As in client-go, a Lease is expired
when our own clock has seen it unchanged for long enough (``Rival``); the times we write are for people.  Anything in a
Lease may have been edited: invalid values are repaired, never obeyed.

If the API server no longer has the Pod of the Lease's holder, the successor need not wait: a Pod deleted by force could
not release the Lease, and a Deployment's next Pod has another name.  As with a StatefulSet, a missing Pod counts as
ended.  Should that be wrong, the fencing numbers in the Lease and in records decide.

    renewed ── writes allowed for LEASE_SECONDS ──▶ not renewed: no writes, but nodes are still served
       ▲                                                 │ and we did not run for PAUSE_SECONDS
       └──────────── renewed again ────────── in doubt: nothing is sent to any node either

While the API server is away no other hub can take over, so nodes are still served (``Tenure``).  A process that was
suspended may have been replaced meanwhile and must check before it sends anything.  ``now`` is seconds of a clock that
counts suspended time.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

ANNOTATION = "fairlead.dev/holder-pod"
ENDED_PHASES = frozenset(["Succeeded", "Failed"])
VARIABLES = ("POD_NAMESPACE", "POD_NAME", "POD_UID")
"""Set by the chart from the Pod's fields."""
TEXT_CHARS_MAX = 2048


class HolderPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str
    name: str
    uid: str
    """A later Pod with the same name has another UID."""


class _Written(msgspec.Struct, frozen=True):
    identity: str
    """Identity of the holder who wrote it: a hub that does not know the annotation leaves its predecessor's in
    place."""
    pod: HolderPod


def own(environ: Mapping[str, str]) -> HolderPod | None:
    """The Pod that this process runs in; None if the variables are not set."""
    namespace, name, uid = (environ.get(variable, "") for variable in VARIABLES)
    return HolderPod(namespace, name, uid) if namespace and name and uid else None


def written(pod: HolderPod | None, identity: str) -> dict[str, str]:
    """Annotations of a Lease held by ``identity``."""
    return {ANNOTATION: msgspec.json.encode(_Written(identity, pod)).decode()} if pod is not None else {}


def read(annotations: Mapping[str, Any], identity: str) -> HolderPod | None:
    """The Pod of the holder ``identity``; None if the annotation is missing or invalid."""
    text = annotations.get(ANNOTATION)
    if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX:
        return None
    try:
        found = msgspec.json.decode(text, type=_Written)
    except msgspec.DecodeError:
        return None
    return found.pod if found.identity == identity and all(msgspec.structs.astuple(found.pod)) else None


def has_ended(pod: HolderPod, there: Mapping[str, Any] | None) -> bool:
    """``there``: what the API server has under this name, or None."""
    if there is None:
        return True
    metadata, status = there.get("metadata"), there.get("status")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        return False
    return uid != pod.uid or (isinstance(status, dict) and status.get("phase") in ENDED_PHASES)


NAME = "fairlead-hub"
FENCE_ANNOTATION = "fairlead.dev/fence"
LEASE_SECONDS = 10
RENEW_SECONDS = 3.0
CLOCK_DRIFT_SECONDS = 1.0
"""Allowed difference between two machines' clocks over ``ABANDONED_SECONDS_MAX``: a rival waits this much longer."""
ABANDONED_SECONDS_MAX = 60.0
"""Upper limit for another holder's ``leaseDurationSeconds``."""
FENCE_MAX = 2**52
"""Edges accept numbers up to 2**53: the rest is reserved for take-overs after a number near this one."""
FENCE_AHEAD_MAX = 100_000
"""Hubs that may have held the Lease since the backup from which an API server was restored; more is not plausible."""
TRANSITIONS_MAX = 2**31 - 2
"""The API server stores a 32-bit number, and refuses a Lease with a larger one."""

CLAIMS_NEEDED = 3
"""Nodes that must report having obeyed a number before the hub goes above it; all of them if there are fewer."""
CLAIM_SECONDS = 600.0
"""How long a node's claim counts after it was last made."""


class FenceClaims:
    """Claims of nodes to have obeyed a number above the hub's.

    A number is never given back, and honest nodes store the one they obey, so the claim of one node must not raise the
    number for all others.  If the Lease was lost or restored, all nodes report it, and the number that enough of them
    have seen is accepted.  ``taken``: the number with which the Lease was taken.  All claims together raise it by less
    than ``FENCE_AHEAD_MAX`` until a hub takes it again.
    """

    def __init__(self, taken: int) -> None:
        self._below = taken + FENCE_AHEAD_MAX
        self._claims: dict[str, tuple[int, float]] = {}
        """The highest number that may be needed: thousands of nodes may report the same."""

    def record(self, node: str, fence: int, now: float, *, nodes: Collection[str]) -> int:
        """The highest number that enough nodes have obeyed, or a higher one; 0 if too few report any.

        ``nodes``: the edge Nodes.  Claims of others do not count, and no more claims are required than there are nodes.
        """
        counting = {n: said for n, said in self._claims.items() if n in nodes and now - said[1] < CLAIM_SECONDS}
        if node in nodes and fence < self._below:
            counting[node] = (fence, now)
        highest = sorted(counting.items(), key=lambda claim: claim[1], reverse=True)[:CLAIMS_NEEDED]
        self._claims = dict(highest)
        needed = max(1, min(CLAIMS_NEEDED, len(nodes)))
        return highest[needed - 1][1][0] if len(highest) >= needed else 0


class TakeLease(msgspec.Struct, frozen=True, kw_only=True):
    """Write this Lease, and this process is the hub with this number."""

    fence: int
    body: dict[str, Any]


class HeldByOther(msgspec.Struct, frozen=True, kw_only=True):
    """Another process is the hub; check again after this time."""

    holder: str
    seconds: float


class Rival:
    """A Lease held by another process, and since when it has not changed, by our own clock."""

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
    """The holder; empty if there is none."""
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

    ``seconds_left`` is the result of ``Rival`` (also 0 if the holder's Pod has ended), ``known`` the number under which
    we hold it already (0: we do not), ``pod`` our own Pod, if we run in one.
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
    """The Lease to write to keep it; None if it is not ours under this number."""
    if holder_of(current) != identity or fence_of(current) != fence:
        return None
    return _body(current, identity, "", wall, fence, pod)


def pod_of_holder(current: dict[str, Any] | None) -> HolderPod | None:
    """The Pod that the Lease's holder runs in, if it is recorded."""
    return read(_annotations(current), holder_of(current))


def is_ours(current: dict[str, Any], *, identity: str, fence: int) -> bool:
    """Whether no other process has taken it over.

    With a lower number the API server was restored from an older copy; without a number, or with an impossible one, it
    was edited by hand.  A newer run with our own identity has a number slightly above ours.
    """
    last = fence_of(current)
    return holder_of(current) == identity and (last <= fence or not is_believable(last, fence))


def is_believable(seen: int, fence: int) -> bool:
    """Whether the hub with number ``fence`` may go above a number that a node reports to have seen.

    Numbers are never given back: one node with an absurd number could otherwise leave none for any hub.
    """
    return seen - fence <= FENCE_AHEAD_MAX


def released(current: dict[str, Any]) -> dict[str, Any]:
    """The Lease without a holder: the next hub need not wait."""
    return {**current, "spec": {**_spec(current), "holderIdentity": "", "leaseDurationSeconds": 1}}


def fence_of(current: dict[str, Any] | None) -> int:
    """The last number given; if the annotation is missing or invalid, the lower bound from the transitions."""
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
        **{key: value for key, value in _annotations(current).items() if key != ANNOTATION},
        FENCE_ANNOTATION: str(fence),
        **written(pod, identity),
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


PULSE_SECONDS = 0.5
"""Maximum interval between calls of ``ran``."""
PAUSE_SECONDS = LEASE_SECONDS - RENEW_SECONDS - 2.0
"""A shorter pause leaves time to renew before another hub may take over."""


class Tenure:
    """See the module docstring."""

    def __init__(self, now: float) -> None:
        self._renewed_at = float("-inf")
        self._ran_at = now
        self.doubted = False

    def renewed(self, asked_at: float, now: float) -> None:
        """The API server confirmed a renewal that was requested at this time."""
        self._renewed_at = max(self._renewed_at, asked_at)
        if self.seconds_left(now) > 0:
            self.doubted = False

    def end(self) -> None:
        """Another process holds the Lease."""
        self._renewed_at = float("-inf")

    def seconds_left(self, now: float) -> float:
        """How long writes are still allowed, since no other hub can hold the Lease before that; 0 if they are not."""
        return max(0.0, self._renewed_at + LEASE_SECONDS - now)

    def ran(self, now: float) -> bool:
        """Call while this process runs.  Returns True when it becomes doubtful: end every connection, then renew."""
        paused = now - self._ran_at >= PAUSE_SECONDS
        self._ran_at = now
        if self.doubted or not paused or self.seconds_left(now) > 0:
            return False
        self.doubted = True
        return True
