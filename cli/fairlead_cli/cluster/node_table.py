"""The table of edge nodes: the same columns in `fairlead nodes` and `fairlead status`.

EdgeNode joined with its Node ─of_item─┐
row of the hub's /v1/nodes ────of_row──┴─▶ NodeLine ─▶ columns
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fairlead_cli.output.tables import OutputColumn, Style, TableView
from fairlead_cli.text import quantities
from fairlead_wire import durations


class NodeTableRow(NamedTuple):
    """The values of one node's columns. None: not known from this source."""

    name: str
    status: str
    """Connected, Away, NodeDeleted or Unknown (never seen), followed by what holds it up, separated by commas."""
    wanted: int
    held: int
    parked: int
    queued: int
    last_contact: str
    created: str | None
    pending: int
    lag_seconds: float | None
    dead_letters: int
    agent: str | None
    hub: str | None
    identity: str | None
    expires: str | None
    paused: str | None
    to_table: str


def of_item(item: Mapping[str, Any]) -> NodeTableRow:
    """From an EdgeNode joined with its Node; the status is empty before its first session."""
    from fairlead_hub.status import edge_node
    from fairlead_hub.status import to_table as rows

    said: Mapping[str, Any] = item["status"]
    identity: Mapping[str, Any] = said.get("identity") or {}
    wanted, held = said.get("objectsWanted") or 0, said.get("objectsHeld") or 0
    conditions = said.get("conditions") or ()
    return NodeTableRow(
        name=str(item["metadata"]["name"]),
        status=_status(
            was_seen=bool(said),
            connected=bool(said.get("connected")),
            deleted=edge_node.is_deleted(said),
            identity=identity.get("state"),
            paused=said.get("paused"),
            guard=said.get("deletionGuard"),
            unreadable=any((each.get("type"), each.get("status")) == ("RulesReadable", "False") for each in conditions),
        ),
        wanted=wanted,
        held=held,
        parked=said.get("objectsParked") or 0,
        queued=said.get("queuedMessages") or 0,
        last_contact=said.get("lastContactTime") or "",
        created=item["metadata"].get("creationTimestamp"),
        pending=max(0, wanted - held),
        lag_seconds=None,
        dead_letters=said.get("deadLetters") or 0,
        agent=said.get("agentVersion"),
        hub=said.get("hub"),
        identity=identity.get("state"),
        expires=identity.get("expires"),
        paused=said.get("paused"),
        to_table=quantities.cell(rows.rows_in(said)),
    )


def of_row(row: Mapping[str, Any]) -> NodeTableRow:
    """From a row of the hub, or one made from API objects."""
    return NodeTableRow(
        name=row["node"],
        status=_status(
            was_seen=bool(row["connected"] or row["lastContact"]),
            connected=row["connected"],
            deleted=bool(row.get("nodeDeleted")),
            identity=row.get("identity"),
            paused=row.get("paused"),
            guard=row.get("deletionGuard"),
            unreadable=bool(row.get("rules")),
        ),
        wanted=row["wanted"],
        held=row["held"],
        parked=row["parked"],
        queued=row.get("queued", 0),
        last_contact=row["lastContact"] or "",
        created=row.get("created"),
        pending=row["pending"],
        lag_seconds=row.get("lagSeconds"),
        dead_letters=row.get("deadLetters", 0),
        agent=row.get("agent"),
        hub=row.get("hub"),
        identity=row.get("identity"),
        expires=row.get("expires"),
        paused=row.get("paused"),
        to_table=quantities.cell(row.get("toTable", ())),
    )


def view(line_of: Callable[[Any], NodeTableRow]) -> TableView:
    """The columns; ``line_of`` reads a row."""

    def column(
        name: str,
        value: Callable[[NodeTableRow], object],
        style: Callable[[NodeTableRow], Style] = lambda _: "",
        *,
        wide: bool = False,
    ) -> OutputColumn:
        return OutputColumn(name, lambda row: value(line_of(row)), wide=wide, style=lambda row: style(line_of(row)))

    return TableView(
        kind="edgenode.fairlead.dev",
        name=lambda row: line_of(row).name,
        columns=(
            column("NAME", lambda line: line.name),
            column("STATUS", lambda line: line.status, _status_style),
            column("OBJECTS", lambda line: f"{line.held}/{line.wanted}"),
            column("PARKED", lambda line: line.parked, lambda line: "bad" if line.parked else ""),
            column("QUEUED", lambda line: line.queued),
            column("LAST CONTACT", lambda line: quantities.since(line.last_contact, quantities.utc()) or "never"),
            column("PENDING", lambda line: line.pending, lambda line: "warn" if line.pending else "", wide=True),
            column("LAG", _lag, wide=True),
            column("DEAD LETTERS", lambda line: line.dead_letters, wide=True),
            column("AGENT", lambda line: line.agent, wide=True),
            column("HUB", lambda line: line.hub, wide=True),
            column("IDENTITY", lambda line: line.identity, _identity_style, wide=True),
            column("EXPIRES", lambda line: line.expires, wide=True),
            column("PAUSED", lambda line: line.paused, wide=True),
            column("TO TABLE P50/P95", lambda line: line.to_table, wide=True),
            column("AGE", lambda line: quantities.since(line.created, quantities.utc()), wide=True),
        ),
    )


def _status(
    *, was_seen: bool, connected: bool, deleted: bool, identity: object, paused: object, guard: Any, unreadable: bool
) -> str:
    if not was_seen:
        return "Unknown"
    notes: Iterable[tuple[object, str]] = (
        (True, "NodeDeleted" if deleted else "Connected" if connected else "Away"),
        (identity == "Revoked", "Revoked"),
        (identity == "Held", "IdentityHeld"),
        (paused, "Paused"),
        (guard and not guard.get("approved"), "DeletionGuard"),
        (unreadable, "RulesUnreadable"),
    )
    return ",".join(itertools.compress((note for _, note in notes), (holds for holds, _ in notes)))


def _status_style(line: NodeTableRow) -> Style:
    return "good" if line.status == "Connected" else "warn" if line.status.startswith("Connected") else "bad"


def _identity_style(line: NodeTableRow) -> Style:
    return "bad" if line.identity in ("Held", "Revoked", "Expired") else ""


def _lag(line: NodeTableRow) -> str:
    return durations.span(line.lag_seconds) if line.lag_seconds else "-"
