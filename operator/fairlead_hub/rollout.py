"""The rollout of one object to all nodes that should hold it.

    object, nodes that should hold it, records, EdgeNodes ─judge─▶ a row for each node

A node is done when its record names the UID and the content that the cluster has now: a record may lag, never lead.
Versions are not compared, because a change of status alone changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from fairlead_hub.cluster import paused_objects
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.sync_rule import Routes
from fairlead_hub.status import node_routes
from fairlead_hub.status.object_sync import Record

State = Literal["held", "pending", "away", "paused", "parked", "undeliverable", "refused", "removing"]
STATES: tuple[State, ...] = get_args(State)


class NodeProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One node; ``version`` is the one it holds, or empty if it holds nothing of the object."""

    node: str
    state: State
    version: str = ""
    reason: str = ""
    away: bool = False


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout of the object in its current version."""

    key: str
    version: str
    digest: str
    rows: tuple[NodeProgress, ...]
    doubts: tuple[str, ...] = ()
    """Unreadable rules, because of which it is uncertain which nodes should hold the object."""

    def count(self, *states: State) -> int:
        return sum(row.state in states for row in self.rows)

    @property
    def nodes(self) -> int:
        """Number of nodes that should hold it."""
        return len(self.rows) - self.count("removing")

    @property
    def is_done(self) -> bool:
        return not self.doubts and all(row.state == "held" for row in self.rows)

    @property
    def stopped(self) -> tuple[NodeProgress, ...]:
        """Rows that do not change until a person acts."""
        return tuple(row for row in self.rows if row.state in ("paused", "parked", "undeliverable", "refused"))


def judge(
    live: LiveObject,
    wanted: Iterable[str],
    records: Iterable[Record],
    accounts: Mapping[str, Mapping[str, Any]],
    doubts: Iterable[str] = (),
    routes: Routes | None = None,
) -> Rollout:
    """``accounts``: EdgeNodes by name, as they are in the API; ``routes``: the object, if it is an EdgeRoutes."""
    of_node = {record.node: record for record in records if record.uid == live.uid}
    nodes = sorted(wanted)
    rows = [_row(live, node, of_node.get(node), accounts.get(node, {})) for node in nodes]
    if routes is not None:
        rows = [_routes_held(row, routes, accounts.get(row.node, {})) for row in rows]
    rows += [
        NodeProgress(
            node=node,
            state="removing",
            version=record.version,
            reason=record.message or record.reason,
            away=_is_away(accounts.get(node, {})),
        )
        for node, record in sorted(of_node.items())
        if node not in set(nodes) and record.version
    ]
    return Rollout(key=live.key, version=live.version, digest=live.digest, rows=tuple(rows), doubts=tuple(doubts))


def _row(live: LiveObject, node: str, record: Record | None, account: Mapping[str, Any]) -> NodeProgress:
    state, reason = _state(live, record, account)
    version = record.version if record is not None else ""
    return NodeProgress(node=node, state=state, reason=reason, version=version, away=_is_away(account))


def _is_away(account: Mapping[str, Any]) -> bool:
    return not (account.get("status") or {}).get("connected")


def _state(live: LiveObject, record: Record | None, account: Mapping[str, Any]) -> tuple[State, str]:
    if record is not None and record.version and record.digest == live.digest:
        return "held", ""
    if live.problem is not None:
        return "undeliverable", f"{live.problem.code}: {live.problem.reason}"
    if live.paused:
        return "paused", f"the object: {live.paused}"
    if why := paused_objects.reason((account.get("metadata") or {}).get("annotations") or {}):
        return "paused", f"the node: {why}"
    if record is not None and record.state == "Parked":
        again = f"; tried again at {record.next_retry_time}" if record.next_retry_time else ""
        return "parked", f"{record.message or record.reason}{again}"
    if _is_away(account):
        since = (account.get("status") or {}).get("lastContactTime")
        return "away", f"last contact {since}" if since else "never connected"
    return "pending", (record.message or record.reason) if record is not None else ""


def _routes_held(row: NodeProgress, routes: Routes, account: Mapping[str, Any]) -> NodeProgress:
    """A node that holds EdgeRoutes runs only the routes it could compile, which it reports separately."""
    if row.state != "held":
        return row
    said = node_routes.rows_in(account.get("status") or {}).get(routes.name)
    if said is None or (said.get("uid"), said.get("observedGeneration")) != (routes.uid, routes.generation):
        if row.away:
            return row
        return replace(row, state="pending", reason="the node has not reported yet which of its routes it runs")
    errors = said.get("errors") or ()
    if not errors:
        return row
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    first = f"route {errors[0].get('route', '')}: {errors[0].get('message', '')}"
    return replace(row, state="refused", reason=f"{first}{more}")
