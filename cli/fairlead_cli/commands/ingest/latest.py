"""`fairlead ingest latest`: refreshes latest tables without a job; also their line in `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import quantities
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_ingest.settings import IngestSettings, Pipeline


def run(settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, rebuild: bool) -> dict[str, Any]:
    """Refresh the latest table of each pipeline that has one. Raises ``Stop``, ``Wait``."""
    from fairlead_ingest.io.latest.refresh import refresh
    from fairlead_ingest.io.table import tables
    from fairlead_ingest.table import store_path

    kept = [(job, job.latest.definition) for job in jobs if job.latest is not None and job.latest.key]
    if not kept:
        raise click.UsageError('no pipeline keeps a latest table; add one with, for example, [latest] key = ["node"]')
    done: list[dict[str, Any]] = []
    for job, definition in kept:
        assert definition is not None
        rows = settings.place(job.table)
        table = tables.beside(rows, store_path.LATEST)
        with ProgressBar(f"reading the rows of {job.name}") as bar:
            found = refresh(rows, table, definition, rebuild=rebuild, on_rows=_Advance(bar))
        if found is None:
            done.append({"name": job.name, "table": str(table), "state": "no rows yet"})
            text = "no rows yet"
        else:
            facts: dict[str, Any] = {
                "keys": found.mark.keys - found.mark.deleted,
                "deleted_keys": found.mark.deleted,
                "rows_version": found.mark.version,
                "rows_read": found.rows_read,
                "changed": found.changed,
                "built_because": found.reason,
            }
            done.append({"name": job.name, "table": str(table), "state": "ok", **facts})
            built = f"; built from all rows: {found.reason}" if found.reason else ""
            text = f"{facts['keys']} keys in {table}, {found.changed} changed by {found.rows_read} rows{built}"
        if not as_json:
            click.echo(f"{job.name}: {text}")
    return {"latest": done}


def line(facts: dict[str, Any]) -> str:
    """The line about a latest table in `fairlead ingest status`."""
    if "keys" not in facts:
        return f"  latest: {facts['table']} ({facts['state']})"
    behind = facts["versions_behind"]
    deleted = f" and {facts['deleted_keys']} deleted" if facts["deleted_keys"] else ""
    return (
        f"  latest: {quantities.of(facts['keys'], 'key')}{deleted},"
        f" {quantities.of(facts['files'], 'file')}, {facts['bytes']} bytes,"
        f" {'up to date' if not behind else quantities.of(behind, 'version') + ' behind'},"
        f" last changed {durations.span(facts['last_refresh_seconds'])} ago"
    )


class _Advance:
    """Advances a progress bar to a total number of rows."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._before = 0

    def __call__(self, rows: int) -> None:
        self._bar.add(rows - self._before)
        self._before = rows
