"""`fairlead token list`: join tokens as a table."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import api_clock, collections, join_tokens
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.colors import Style
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import ages

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


@click.command("list", short_help="List tokens: whom they admit, and whom they admitted.")
@targets.options()
@printer.options()
def listed(target: Target, shown: Printer) -> None:
    """List the cluster's join tokens; their secrets are not there.

    STATE is Good, Used, Expired, or Unseen: no hub has seen it yet. `fairlead token revoke` deletes one. Times are by
    the API server's clock.
    """

    async def asked(kube: Kube) -> tuple[list[dict[str, Any]], datetime.datetime, str]:
        found = await collections.items(kube, join_tokens.PATH)
        return found, api_clock.now(kube), api_clock.note(kube)

    found, now, note = target.ask(asked)
    if note and shown.is_for_people:
        click.echo(note, err=True)
    shown.items(view(now), found, none="no join tokens; `fairlead token create --node NAME` makes one")


def view(now: datetime.datetime) -> TableView:
    """The columns, as of this moment."""
    return TableView(
        kind="jointoken.fairlead.dev",
        name=lambda row: str(row["metadata"]["name"]),
        columns=(
            OutputColumn("ID", lambda row: row["metadata"]["name"]),
            OutputColumn("ADMITS", lambda row: row["spec"].get("node") or row["spec"].get("pattern")),
            OutputColumn("USED", _used),
            OutputColumn("STATE", lambda row: _state(row, now), style=lambda row: _style(row, now)),
            OutputColumn("EXPIRES", lambda row: _left(row, now)),
            OutputColumn("AGE", lambda row: ages.since(row["metadata"].get("creationTimestamp"), now)),
            OutputColumn("REPLACES", lambda row: "yes" if row["spec"].get("replace") else "no", wide=True),
            OutputColumn("NODES", _nodes, wide=True),
            OutputColumn("HUB", lambda row: (row.get("status") or {}).get("url"), wide=True),
        ),
    )


def _state(row: dict[str, Any], now: datetime.datetime) -> str:
    spec, status = row["spec"], row.get("status") or {}
    if len(status.get("uses") or ()) >= spec.get("uses", 1):
        return "Used"
    if (ends := _time(spec.get("expires"))) is not None and ends <= now:
        return "Expired"
    return "Good" if status.get("pins") else "Unseen"


def _style(row: dict[str, Any], now: datetime.datetime) -> Style:
    styles: dict[str, Style] = {"Good": "good", "Unseen": "warn"}
    return styles.get(_state(row, now), "")


def _used(row: dict[str, Any]) -> str:
    return f"{len((row.get('status') or {}).get('uses') or ())}/{row['spec'].get('uses', 1)}"


def _time(text: object) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _left(row: dict[str, Any], now: datetime.datetime) -> str:
    ends = _time(row["spec"].get("expires"))
    left = (ends - now).total_seconds() if ends is not None else 0.0
    return f"in {ages.short(left)}" if left > 0 else f"{ages.since(row['spec'].get('expires'), now)} ago"


def _nodes(row: dict[str, Any]) -> str:
    return ",".join(str(each.get("node")) for each in (row.get("status") or {}).get("uses") or ())
