"""Is there a hub, is messaging ready, and which versions are running?"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairlead_cli.doctor.examination import Finding, ok, problem, warning

COMPONENT: Final = "app.kubernetes.io/component"
RESTARTS_WARNING: Final = 5


def judge_leases(leases: Iterable[Mapping[str, Any]], now: datetime.datetime) -> Iterator[Finding]:
    """Is the hub's Lease held, and was it renewed recently?"""
    found = list(leases)
    if not found:
        text = "no hub Lease found: no hub has run in this cluster yet"
        yield problem("hub.lease", text, "install the hub, or name its namespace with -n; its log says lease_wait")
    for lease in found:
        yield _judge_lease(lease, now)


def no_hub(leases: Iterable[Mapping[str, Any]], now: datetime.datetime) -> str:
    """Why no hub serves nodes now; empty if one does."""
    found = list(leases)
    if any(finding.level == "ok" for finding in judge_leases(found, now)):
        return ""
    times = [at for each in found if (at := _time((each.get("spec") or {}).get("renewTime"))) is not None]
    if not times:
        return "no hub holds a Lease"
    return f"no hub has renewed the Lease for {(now - max(times)).total_seconds():.0f} s"


def _judge_lease(lease: Mapping[str, Any], now: datetime.datetime) -> Finding:
    spec, name = lease.get("spec") or {}, f"{lease['metadata'].get('namespace', '')}/{lease['metadata']['name']}"
    holder, renewed = spec.get("holderIdentity") or "", _time(spec.get("renewTime"))
    if not holder or renewed is None:
        return problem("hub.lease", f"Lease {name} has no holder: no hub is running", "start the hub; read its log")
    age = (now - renewed).total_seconds()
    if age > (spec.get("leaseDurationSeconds") or 0):
        text = f"Lease {name} of {holder} has expired (renewed {age:.0f} s ago): no hub serves nodes"
        return problem("hub.lease", text, "check that the hub is running and can reach the API server; read its log")
    return ok("hub.lease", f"hub {holder} holds Lease {name}, renewed {max(0.0, age):.0f} s ago")


def judge_ready(name: str, url: str, status: int | None, text: str) -> Finding:
    """The response of ``/readyz``; None: there was none."""
    body = " ".join(text.split())[:300]
    if status == 200:
        return ok(f"{name}.ready", f"{name} at {url} is ready" + (f": {body}" if body not in ("", "ok") else ""))
    if status is None:
        return problem(
            f"{name}.ready", f"{name} at {url} does not respond: {body}", f"check that {name} is running; see its log"
        )
    return problem(f"{name}.ready", f"{name} at {url} is not ready ({status}): {body}", f"see {name}'s log")


def judge_pods(pods: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Pods of the chart: are they ready, and how often did they restart?"""
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        component = (metadata.get("labels") or {}).get(COMPONENT) or "program"
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        if status.get("phase") in ("Succeeded", "Failed"):
            continue  # a Job's, or one that was replaced
        containers = status.get("containerStatuses") or []
        restarts = sum(each.get("restartCount") or 0 for each in containers)
        conditions = {each.get("type"): each for each in status.get("conditions") or ()}
        ready = conditions.get("Ready") or {}
        if ready.get("status") != "True":
            why = _why_waiting(containers) or ready.get("message") or status.get("phase") or "unknown"
            remedy = f"kubectl -n {metadata.get('namespace', '')} describe pod {metadata['name']}"
            yield problem(f"{component}.pod", f"Pod {name} is not ready: {why}", remedy)
        elif restarts >= RESTARTS_WARNING:
            text = f"Pod {name} is ready but has restarted {restarts} times"
            yield warning(f"{component}.pod", text, f"kubectl logs --previous {metadata['name']}")
        else:
            yield ok(f"{component}.pod", f"Pod {name} is ready")


def judge_versions(agents: Iterable[str], here: str) -> Iterator[Finding]:
    """Agents' versions against this program's; one minor version apart is supported."""
    counted = Counter(each or "unknown" for each in agents)
    if not counted:
        return
    shown = ", ".join(f"{version}: {count}" for version, count in sorted(counted.items()))
    far = [version for version in counted if not is_near(version, here)]
    if far:
        text = f"agents by version ({shown}); {', '.join(sorted(far))} is more than one minor version from {here}"
        yield warning("versions", text, "upgrade the agents one minor version at a time, after the hub")
    else:
        yield ok("versions", f"this program is {here}; agents by version: {shown}")


def is_near(version: str, here: str) -> bool:
    """Of one major version, at most one minor version apart; text that is not a version is ignored."""
    try:
        theirs, ours = ([int(part) for part in each.split(".")[:2]] for each in (version, here))
    except ValueError:
        return True
    return theirs[0] == ours[0] and abs(theirs[1] - ours[1]) <= 1


def _why_waiting(containers: Iterable[Mapping[str, Any]]) -> str:
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting")
        if waiting:
            return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    return ""


def _time(text: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return None
