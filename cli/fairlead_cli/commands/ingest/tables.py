"""`fairlead ingest status|receipt|report|compact|vacuum|backfill|latest`: the state and maintenance of tables."""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead_cli import parameters
from fairlead_cli.commands.ingest import job_options
from fairlead_cli.commands.ingest import latest as ingest_latest
from fairlead_cli.commands.ingest.check import check
from fairlead_cli.commands.ingest.jobs import jobs as ingest_jobs
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import quantities
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_ingest.settings import IngestSettings, Pipeline
    from fairlead_ingest.table.store_path import Place

F = TypeVar("F", bound=Callable[..., Any])

EXIT_FAILED = 1
EXIT_USAGE = 2
WAIT_SECONDS_MAX = 86_400


class Seconds(click.FloatRange):
    """Seconds, at most a day; refuses "nan", which a range does not."""

    def __init__(self) -> None:
        super().__init__(0, WAIT_SECONDS_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number of seconds", param, ctx) if math.isnan(seconds) else seconds


def register(root: click.Group) -> None:
    """Add the commands to `ingest`."""
    group = root.commands["ingest"]
    assert isinstance(group, click.Group)
    for command in (check, ingest_jobs, status, receipt, report, compact, vacuum, backfill, latest):
        group.add_command(command)


def _configured(command: F) -> F:
    """Adds the common options; the command gets the settings that were read."""

    @wraps(command)
    def checked(config: Path | None, pipeline: str | None, output: str, **rest: Any) -> None:
        settings, jobs = job_options.load(config, pipeline)
        with job_options.explained():
            answer = command(settings, jobs, as_json=output == "json", **rest)
        if output == "json":
            click.echo(json.dumps(answer, indent=1))

    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True),
        click.option("--pipeline", help="Only this pipeline."),
        click.option("--config", type=path, help="The job's settings file, as for `run`."),
    ):
        checked = option(checked)
    return checked  # type: ignore[return-value]


@click.command(short_help="Show how far tables are behind their topics.")
@_configured
def status(settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool) -> dict[str, Any]:
    """Show how far tables are behind their topics, and how fast they catch up.

    Reads the tables and asks the messaging service; the job need not be running.

    \b
    fairlead ingest status --config ingest.toml
    """
    from fairlead_ingest.io import status as statuses
    from fairlead_ingest.io.service_tls import tls_of
    from fairlead_messaging.client.io.sync_client import BulkClient

    now = datetime.datetime.now(datetime.UTC)
    with BulkClient(settings.messaging_url, tls=tls_of(settings), timeout_seconds=5.0) as client:
        found = [
            statuses.of(job, settings.place(job.table), client, now, settings.catalog_of(job.table_format))
            for job in jobs
        ]
    if not as_json:
        for each in found:
            click.echo(status_text(each))
    return {"pipelines": found}


@click.command(short_help="Check whether a message is in the table: exit 0 if it is, 1 if not.")
@click.argument("message_id")
@click.option("--node", help="Only from this node.")
@click.option("--wait", type=Seconds(), default=0.0, show_default=True, help="Seconds to wait for it, at most a day.")
@_configured
def receipt(
    settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, message_id: str, node: str | None, wait: float
) -> dict[str, Any]:
    """Check whether a message is in the table, by the id that publishing returned; exit 0 if it is, 1 if not.

    A row that is found is committed; it is shown with its topic, message id, batch and times.

    \b
    fairlead ingest receipt 9f86d081884c7d659a2feaa0c55ad015 --config ingest.toml --wait 60
    """
    from fairlead_ingest.io.table import tables
    from fairlead_ingest.io.table.receipt import TableReceipts

    seconds = wait / len(jobs)
    for job in jobs:
        found = TableReceipts(tables.of_pipeline(settings, job), settings.place(job.table), message_id, node).wait(
            seconds
        )
        if found is not None:
            if not as_json:
                click.echo(f"{message_id}: in {job.table}, ingested at {_place_in_time(found)}")
            return {"found": True, "pipeline": job.name, **found}
    absent = [job.table for job in jobs if tables.of_pipeline(settings, job).version(settings.place(job.table)) is None]
    for table in absent:
        click.echo(f"fairlead ingest: there is no table {table} yet (has the job run?)", err=True)
    if as_json:
        click.echo(json.dumps({"found": False}))
    elif len(absent) < len(jobs):
        click.echo(f"{message_id}: not in {', '.join(job.table for job in jobs if job.table not in absent)}")
    raise SystemExit(EXIT_FAILED)


def _place_in_time(row: dict[str, Any]) -> str:
    """When a row was ingested, and by which batch; a repair and a backfill have none."""
    moment = datetime.datetime.fromisoformat(row["_ingested_at"]).astimezone(datetime.UTC)
    by = f"batch {row['_batch']}" if row["_batch"] >= 0 else "by a repair or backfill"
    return f"{moment:%Y-%m-%dT%H:%M:%SZ} ({by})"


@click.command(short_help="Write an HTML report about tables: rate, lag, freshness, files, gaps, dead letters.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The HTML file to write.")
@click.option(
    "--days",
    type=click.IntRange(1, 36_500),
    default=7,
    show_default=True,
    help="Count rows published on the last days (UTC), including today; more days take longer.",
)
@click.option("--offline", is_flag=True, help="Do not ask the messaging service how far the tables are behind.")
@_configured
def report(
    settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, out: Path, days: int, offline: bool
) -> dict[str, Any]:
    """Write a self-contained HTML page with charts about the tables; it needs no network and no scripts.

    It shows rate, lag and freshness over time, files by size and the cost of small ones, rows by node, hour and
    priority, delays, gaps, and dead letters. The job need not be running.

    \b
    fairlead ingest report --config ingest.toml --out report.html
    fairlead ingest report --config ingest.toml --out month.html --days 31 --offline
    """
    from fairlead_ingest.io import table_report
    from fairlead_ingest.io.service_tls import tls_of
    from fairlead_ingest.io.table import tables
    from fairlead_ingest.report import page as pages
    from fairlead_messaging.client.io.sync_client import BulkClient

    if not out.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no directory {out.absolute().parent}", param_hint="--out")
    now = datetime.datetime.now(datetime.UTC)
    since = datetime.date.fromordinal(max(1, now.date().toordinal() - days + 1))
    found = []
    with BulkClient(settings.messaging_url, tls=tls_of(settings), timeout_seconds=5.0) as client:
        for job in jobs:
            table_format, table = tables.of_pipeline(settings, job), settings.place(job.table)
            lags = None if offline else table_report.lags(table_format, table, job.topics, client, now)
            with ProgressBar(f"counting rows of {job.name}", tables.count(table_format, table)) as bar:
                facts = table_report.table_facts(
                    job.name, table_format, table, since=since, days=days, lags=lags, progress=bar.add
                )
            found.append(facts)
    try:
        out.write_text(pages.page(found, now))
    except OSError as error:
        raise click.ClickException(f"--out {out}: {error.strerror or error}; name another file") from None
    if not as_json:
        click.echo(f"{out}: {sum(each.rows for each in found)} rows in {quantities.of(len(found), 'table')}")
    return {"page": str(out), "rows": sum(each.rows for each in found)}


@click.command(short_help="Join small files, or sort them by a column.")
@click.option("--target-mib", type=click.IntRange(1, 4096), default=128, show_default=True, help="Target size.")
@click.option(
    "--z-order", multiple=True, metavar="COLUMN", help="Sort by this column (for example node); may be repeated."
)
@_configured
def compact(
    settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, target_mib: int, z_order: tuple[str, ...]
) -> dict[str, Any]:
    """Merge small files, or sort rows by a column, partition by partition; the job may keep running.

    \b
    fairlead ingest compact --config ingest.toml
    fairlead ingest compact --config ingest.toml --z-order node
    """
    from fairlead_ingest.io.table import maintenance

    done: list[dict[str, Any]] = []

    def compact_one(job: Pipeline) -> None:
        compaction = maintenance.compaction(settings, job)
        unknown = set(z_order) - set(compaction.columns)
        if unknown:
            raise click.UsageError(f"{job.table} has no column {', '.join(sorted(unknown))}")
        with ProgressBar(f"compacting {job.name}, partitions", len(compaction.partitions())) as bar:
            facts = compaction.compact(target_bytes=target_mib * 1024 * 1024, sort_by=z_order, progress=bar.advance)
        done.append({"name": job.name, "table": job.table, **facts})
        if not as_json:
            click.echo(f"{job.name}: {quantities.of(facts['files_removed'], 'file')} became {facts['files_added']}")

    job_options.in_turn(jobs, compact_one)
    return {"compacted": done}


@click.command(short_help="Delete files that no table version needs, including those of killed tasks.")
@click.option("--retention-hours", type=int, default=168, show_default=True, help="Keep files younger than this.")
@click.option("--dry-run", is_flag=True, help="Only list the files.")
@_configured
def vacuum(
    settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, retention_hours: int, dry_run: bool
) -> dict[str, Any]:
    """Delete files that no table version needs any more, including those of killed tasks.

    \b
    fairlead ingest vacuum --config ingest.toml --dry-run
    """
    from fairlead_ingest.io.table import maintenance, tables
    from fairlead_ingest.table import store_path

    done: list[dict[str, Any]] = []

    def vacuum_one(job: Pipeline) -> None:
        table_format, main = tables.of_pipeline(settings, job), settings.place(job.table)
        suffixes = [tables.DEAD_LETTERS, tables.GAPS, tables.REPAIRS]
        suffixes += [store_path.LATEST] if job.latest and job.latest.key else []
        for path in (main, *(tables.beside(main, suffix) for suffix in suffixes)):
            if path != main and table_format.size(path) is None:
                continue  # a table that was only ever backfilled has no gaps
            files = maintenance.vacuum(table_format, path, retention_hours=retention_hours, dry_run=dry_run)
            done.append({"table": str(path), "files": files})
            if not as_json:
                click.echo(f"{path}: {quantities.of(len(files), 'file')} {'would be ' if dry_run else ''}deleted")
                for file in files if dry_run else ():
                    click.echo(f"  {file}")

    job_options.in_turn(jobs, vacuum_one)
    return {"dry_run": dry_run, "vacuumed": done}


@click.command(short_help="Read a time range again, and add rows that a table lacks.")
@click.option(
    "--from",
    "begin",
    type=parameters.MomentParameter(),
    metavar="TIME",
    help="Begin here: 2026-11-20T12:00Z, 15m, 7d, or milliseconds since 1970; default: the beginning.",
)
@click.option(
    "--until", "end", type=parameters.MomentParameter(), metavar="TIME", help="End before this time; default: now."
)
@click.option("--into", help="Another table; default: the pipeline's own.")
@_configured
def backfill(
    settings: IngestSettings,
    jobs: list[Pipeline],
    *,
    as_json: bool,
    begin: int | None,
    end: int | None,
    into: str | None,
) -> dict[str, Any]:
    """Read a time range again and add missing rows to a table, without duplicates.

    The job's positions are not changed, and messages beyond them are left to the job. Rows are compared by topic and
    message id at each commit, so this may run together with the job, other backfills and repairs, and be repeated after
    an interruption.

    \b
    fairlead ingest backfill --config ingest.toml --from 2026-11-20T08:00Z --until 2026-11-20T09:00Z
    """
    from fairlead_ingest.io.pipeline import backfill as backfills
    from fairlead_ingest.io.pipeline import preflight
    from fairlead_ingest.io.spark import connect, executor_probe, session
    from fairlead_wire.errors import LocalError
    from fairlead_wire.io import logs

    if begin is not None and end is not None and end <= begin:
        raise click.BadParameter("must be a later time than --from", param_hint="--until")
    tables = [_into(settings, into or job.table) for job in jobs]
    logs.configure("ingest", "warning")
    with job_options.used(EXIT_USAGE):
        if not settings.spark.remote:
            session.require_java(os.environ)
        preflight.check(settings, jobs)
    click.echo("starting Spark …", err=True)
    try:
        with connect.coded():
            spark = session.start(**settings.spark.model_dump())
    except connect.SparkAway as error:
        raise LocalError(str(error)) from None
    done: list[dict[str, Any]] = []
    try:
        executor_probe.check(spark, settings)
        for job, table in zip(jobs, tables, strict=True):
            with ProgressBar(f"backfilling {job.name}, messages") as bar, connect.coded():
                facts = backfills.run(
                    spark,
                    settings,
                    job,
                    from_ms=begin,
                    until_ms=end,
                    into=table,
                    total=bar.expect,
                    progress=bar.add,
                )
            done.append({"name": job.name, "table": str(table), **facts})
    finally:
        spark.stop()
    if not as_json:
        for each in done:
            click.echo(f"{each['name']}: {quantities.of(each['rows_added'], 'row')} added to {each['table']}")
    return {"backfilled": done}


@click.command(short_help="Bring the tables with the newest row of each key up to their rows.")
@click.option("--rebuild", is_flag=True, help="Rebuild from all rows, even if the table exists.")
@_configured
def latest(settings: IngestSettings, jobs: list[Pipeline], *, as_json: bool, rebuild: bool) -> dict[str, Any]:
    """Refresh `TABLE_latest`, which has the newest row of each key; the job may keep running.

    The job does this by itself, so it is only needed for a table whose job is not running, or to see why it is behind.
    With --rebuild all rows are read again; readers see the old table until the new one is complete.

    \b
    fairlead ingest latest --config ingest.toml
    """
    return ingest_latest.run(settings, jobs, as_json=as_json, rebuild=rebuild)


def _into(settings: IngestSettings, table: str) -> Place:
    """The table that a backfill writes to, checked before Spark is started."""
    try:
        return settings.place(table)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--into") from None


def status_text(facts: dict[str, Any]) -> str:
    """The lines about one pipeline."""
    lines = [f"{facts['name']}: {quantities.of(facts['rows'], 'row')} in {facts['table']} ({facts['state']})"]
    if "last_batch" in facts:
        lines.append(
            f"  batch {facts['last_batch']} {durations.span(facts['last_commit_seconds'])} ago,"
            f" with {quantities.of(facts['last_rows'], 'row')}{_pace(facts)}"
        )
        lines.append(f"  {quantities.of(facts['files'], 'file')}, {facts['bytes']} bytes, version {facts['version']}")
    totals = facts.get("totals", {})
    if facts.get("last_dead_letters") and not facts["last_rows"]:
        letters = quantities.of(facts["last_dead_letters"], "dead letter")
        lines.append(f"  no message of the last batch became a row, {letters}; see why: fairlead ingest deadletters")
    lines.append(
        f"  dead letters {facts['dead_letters_open']} open, {facts['dead_letters_repaired']} repaired,"
        f" gaps {facts['gaps_rows']},"
        f" expired unread {totals.get('expired_unread', 0)}"
    )
    if "latest" in facts:
        lines.append(ingest_latest.line(facts["latest"]))
    if used := facts.get("contracts"):
        lines.append("  contract {name} version {version} since batch {batch}, {at}".format(**used[-1]))
    for topic in facts["topics"]:
        if topic.get("state") == "ok":
            behind = durations.span(topic["lag_seconds"])
            lines.append(f"  {topic['topic']}: {quantities.of(topic['lag_messages'], 'message')}, {behind} behind")
        elif topic.get("state") == "unreachable":
            lines.append(f"  {topic['topic']}: how far behind is unknown: {topic['reason']}")
        else:
            lines.append(f"  {topic['topic']}: {topic.get('state')} {topic.get('reason', '')}".rstrip())
    return "\n".join(lines)


def _pace(facts: dict[str, Any]) -> str:
    """Rate and freshness as far as they are known: one commit has no rate, rows without `enqueued_at` no freshness."""
    rate, half, most = (facts[name] for name in ("rows_per_second", "freshness_p50_seconds", "freshness_p95_seconds"))
    found = "" if rate is None else f"; {rate} rows/s"
    return found if half is None else f"{found}; fresh within {_span(half)} (half), {_span(most)} (95 %)"


def _span(seconds: float | str) -> str:
    """A text says "more than" a number of seconds."""
    return f"{seconds} s" if isinstance(seconds, str) else durations.span(seconds)
