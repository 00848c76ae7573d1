"""Rules, routes and nodes: what is refused, and what fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead_cli.doctor.examination import Finding, ok, problem, warning, worst
from fairlead_cli.text import quantities
from fairlead_hub.delivery import deletion_guard
from fairlead_hub.status import sync_rule_status
from fairlead_hub.status.edge_node import STALE_HUB, deletion, is_deleted

SHOWN_MAX = 20
"""Maximum number of findings of one kind; the others are only counted."""


def judge_written(kind: str, items: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """One finding for each SyncRule or EdgeRoutes object that is not accepted."""
    check, found, count = kind.lower(), [], 0
    for item in items:
        count += 1
        status, name = item.get("status") or {}, item["metadata"]["name"]
        accepted = next((each for each in status.get("conditions") or () if each.get("type") == "Accepted"), None)
        if accepted is None:
            text = f"{kind} {name} has not been evaluated by a hub yet"
            found.append(warning(check, text, "see hub.lease: is a hub running?"))
        elif accepted.get("status") != "True":
            why = accepted.get("message") or status.get("message") or accepted.get("reason") or "no reason given"
            found.append(problem(check, f"{kind} {name} is not accepted: {why}", f"kubectl edit {check} {name}"))
        elif status.get("unlistedKinds"):
            text = f"{kind} {name}: {'; '.join(status['unlistedKinds'])}"
            found.append(problem(check, text, _remedy_unlisted(status["unlistedKinds"])))
        elif status.get("failingNodes"):
            first = status["failingNodes"][0]
            text = f"{kind} {name} is not in force everywhere: {sync_rule_status.failing(status)}"
            found.append(warning(check, text, f"fairlead explain {check}/{name} --node {first.get('node')}"))
        else:
            for what, remedy in sync_rule_status.nothing_selected(str(status.get("message") or "")):
                found.append(warning(check, f"{kind} {name} {what}", remedy))
            if warned := sync_rule_status.warnings(status):
                found.append(warning(check, f"{kind} {name} has warnings: {warned}", f"kubectl edit {check} {name}"))
    yield from _bounded(check, found)
    if count and not found:
        yield ok(check, f"{kind}: {count} of {count} accepted")
    elif not count:
        yield ok(check, f"there are no {kind} objects")


def _remedy_unlisted(reasons: Iterable[str]) -> str:
    """A kind that the hub may not list exists; only the permission is missing."""
    forbidden = ["403" in each or "forbidden" in each.lower() for each in reasons]
    parts = ["grant the permission: fairlead rbac | kubectl apply -f -"] if any(forbidden) else []
    parts += ["install the definition, correct the version, or remove the entry"] if not all(forbidden) else []
    return "; else ".join(parts)


def judge_nodes(items: Iterable[Mapping[str, Any]], *, is_hub_away: bool = False) -> Iterator[Finding]:
    """EdgeNodes: cut off, parked, stopped by the deletion guard, paused.

    ``is_hub_away``: no hub runs, which is a finding of its own; then no node is connected, and none is to blame.
    """
    found: list[Finding] = []
    count = connected = 0
    for item in items:
        count += 1
        connected += bool((item.get("status") or {}).get("connected"))
        found += _judge_node(item["metadata"]["name"], item.get("status") or {}, is_hub_away)
    yield from _bounded("nodes", sorted(found, key=lambda each: each.level != "problem"))
    text = f"{connected} of {count} edge nodes are connected"
    if is_hub_away:
        if not found:
            yield ok("nodes", f"{quantities.of(count, 'edge node')}; without a hub none is connected")
    else:
        yield ok("nodes", text) if connected == count else warning("nodes", text, "see the lines above")


def _judge_node(name: str, status: Mapping[str, Any], is_hub_away: bool) -> Iterator[Finding]:
    yield from _judge_identity(name, status.get("identity") or {})
    conditions = status.get("conditions") or ()
    link: Mapping[str, Any] = next((each for each in conditions if each.get("type") == "Connected"), {})
    if is_deleted(status):
        yield warning("nodes", *deletion(name, status.get("identity")))
    elif link.get("reason") == STALE_HUB:
        text = f"node {name} is refused: {link.get('message')}"
        remedy = f"it accepts this hub after [link] stale_hub_seconds (600); to accept it now: {approval(name)}"
        yield problem("nodes", text, remedy)
    elif not status.get("connected") and not is_hub_away:
        last = status.get("lastContactTime") or "never"
        text = f"node {name} is not connected (last contact: {last})"
        yield warning("nodes", text, f"if it should be, run fairlead doctor --edge on {name}")
    if parked := status.get("objectsParked"):
        remedy = f"see fairlead status {name}; fairlead resync {name} retries now"
        yield problem("nodes", f"node {name}: {quantities.of(parked, 'object')} parked after too many refusals", remedy)
    guard = status.get("deletionGuard")
    if guard and not guard.get("approved"):
        text = f"node {name}: the deletion guard stops {quantities.of(guard.get('count', 0), 'deletion')}"
        yield problem("nodes", text, deletion_guard.remedy(name))
    if paused := status.get("paused"):
        yield warning("nodes", f"node {name} is paused: {paused}", f"to resume: fairlead resume {name}")


def approval(node: str) -> str:
    """The command that lets a node that obeyed a higher fencing number follow this hub at once."""
    return f"fairlead node approve {node}"


def _judge_identity(name: str, identity: Mapping[str, Any]) -> Iterator[Finding]:
    if identity.get("state") == "Revoked":
        remedy = f"to replace its identity: fairlead token create --node {name} --replace"
        yield warning("nodes", f"node {name} is revoked: its certificates are refused", remedy)
    elif held := identity.get("held"):
        text = f"node {name} presents a certificate that is held for approval ({held})"
        yield problem(
            "nodes", text, f"if you know why, fairlead node approve {name}; otherwise fairlead node revoke {name}"
        )


def _bounded(check: str, found: list[Finding]) -> Iterator[Finding]:
    yield from found[:SHOWN_MAX]
    if len(found) > SHOWN_MAX:
        yield Finding(
            check,
            worst(found[SHOWN_MAX:]),
            f"and {len(found) - SHOWN_MAX} more of this kind",
            "fix those above, then run fairlead doctor again",
        )
