"""`fairlead ingest repair`: turns dead letters into rows, each exactly once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.commands.ingest import job_options as ingest_job
from fairlead_cli.commands.ingest.letters import job_options, selection, selection_options
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import printable, quantities

if TYPE_CHECKING:
    from fairlead_ingest.io.letters.correction import Correction, LetterJudge
    from fairlead_ingest.io.letters.repair import Repair
    from fairlead_ingest.settings import IngestSettings, Pipeline

EXIT_FAILED = 1
EXIT_USAGE = 2
# What `dead_letters.FAILED` and `NOT_LET_THROUGH` say; every other code is a dead letter's own.
_STAYED = {
    "failed": "were not checked: the function or a transform failed",
    "left_out": "would not become rows: filtered out by a transform, or gap records",
}


def register(root: click.Group) -> None:
    """Add `repair` to `ingest`."""
    group = root.commands["ingest"]
    assert isinstance(group, click.Group)
    group.add_command(repair)


@click.command(short_help="Turn dead letters into rows of the table, each exactly once.")
@selection_options
@click.option(
    "--with",
    "function",
    metavar="FILE.py:NAME",
    help="A function that returns the new payload of a letter; also module:name.",
)
@click.option(
    "--edited",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An edited export: repair only its letters, with its payloads.",
)
@click.option("--recheck", is_flag=True, help="Include repaired dead letters: write rows again that are gone.")
@click.option("--dry-run", is_flag=True, help="Check the letters, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@job_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def repair(
    config: Path | None,
    pipeline: str | None,
    output: str,
    function: str | None,
    edited: Path | None,
    recheck: bool,
    dry_run: bool,
    yes: bool,
    **chosen: Any,
) -> None:
    """Check dead letters again with the job's current schema file and transforms; those that fit become rows.

    The row has the letter's own `_topic`, `_id` and `_published_at`, so it is written only once, even if the command is
    interrupted and repeated, or runs together with the job, a backfill or another repair. The letter is kept, and
    marked in `<table>_repairs`.

    \b
    After fixing the schema file:    fairlead ingest repair --config ingest.toml --code misfit
    With a function:                 fairlead ingest repair --config ingest.toml --with mend.py:celsius
    By hand:                         fairlead ingest deadletters export letters.jsonl --config ingest.toml
                                     fairlead ingest repair --config ingest.toml --edited letters.jsonl

    The function gets a dict with topic, id, published_at, code, fields, error, and payload (bytes). It returns the new
    payload as bytes or text, a dict to be written as JSON, or None to leave the letter unchanged. If it raises, the
    letter is not repaired; the summary shows the error and the beginning of the payload.

    \b
    # mend.py: the device sent {'temp': 71.6}, with the wrong quotes and in Fahrenheit
    import json
    def celsius(letter):
        body = json.loads(letter["payload"].replace(b"'", b'"'))
        body["temp"] = round((body["temp"] - 32) / 1.8, 1)
        return body

    Exit codes: 0 all selected letters have rows; 1 some do not (the summary says why), or it was not confirmed; 2 wrong
    use, or no terminal and no --yes. Spark (and Java) is started only if the pipeline has a schema file or transforms.
    """
    from fairlead_ingest.io.letters import correction

    if function and edited:
        raise click.UsageError("--with and --edited exclude each other; give one")
    if function and ":" not in function:
        raise click.BadParameter(f"FILE.py:NAME or module:NAME, not {function!r}", param_hint="--with")
    wanted = selection(**chosen)
    settings, jobs = ingest_job.load(config, pipeline)
    if edited and len(jobs) > 1:
        raise click.UsageError(f"--edited is about one pipeline: add --pipeline {'|'.join(job.name for job in jobs)}")
    with ingest_job.used(EXIT_USAGE):
        how: Correction = correction.Rejudged()
        if function:
            how = correction.ByFunction(function)
        elif edited:
            how = correction.ByFile(edited)
    sparks = _Sparks(settings, jobs)
    with ingest_job.explained():
        repairs = [(job, _repair(settings, job, wanted, how, recheck)) for job in jobs]
    count = sum(each.letters.num_rows for _, each in repairs)
    if count and not dry_run and not yes:
        _confirm(count, [job.table for job in jobs])
    done = []
    try:
        with ingest_job.explained():
            for job, each in repairs:
                with ProgressBar(f"repairing {job.name}, dead letters", each.letters.num_rows) as bar:
                    tally = each.run(lambda job=job: sparks.judge(job), dry_run=dry_run, progress=bar.add)  # type: ignore[misc]
                done.append((job, tally))
    finally:
        sparks.stop()
    if output == "json":
        plain = [{"name": job.name, "table": job.table, **tally.plain()} for job, tally in done]
        click.echo(json.dumps({"dry_run": dry_run, "pipelines": plain}, indent=1))
    else:
        for job, tally in done:
            click.echo(_text(job, tally.plain(), dry_run))
    if not all(tally.is_done for _, tally in done):
        raise SystemExit(EXIT_FAILED)


def _repair(settings: IngestSettings, job: Pipeline, wanted: Any, how: Correction, recheck: bool) -> Repair:
    from fairlead_ingest.io import contracts
    from fairlead_ingest.io.letters.repair import Repair
    from fairlead_ingest.io.pipeline import query
    from fairlead_ingest.io.table import tables

    table_format, table = tables.of_pipeline(settings, job), settings.place(job.table)
    evolves = query.evolves(job)
    check = partial(contracts.check_takes, job.table_format or settings.table_format, table_format, table)
    if job.schema_file and not job.transforms:  # a transform may give a column another type
        check(contracts.columns(contracts.read(Path(job.schema_file))))
    return Repair(table_format, table, wanted, how, evolves=evolves, rechecks=recheck, check=check)


def _confirm(count: int, names: list[str]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"selected: {quantities.of(count, 'dead letter')}, but there is no terminal to ask for confirmation: check"
            " with --dry-run, then run it again with --yes"
        )
    if not click.confirm(
        f"Check {quantities.of(count, 'dead letter')} again, and add those that fit to {', '.join(names)}?", err=True
    ):
        click.echo("not confirmed; nothing was changed")
        raise SystemExit(EXIT_FAILED)


class _Sparks:
    """The session, started by the first pipeline that needs one."""

    def __init__(self, settings: IngestSettings, jobs: list[Pipeline]) -> None:
        self._settings = settings
        self._session: Any = None
        self._stop: Callable[[], None] = lambda: None
        from fairlead_ingest.io.letters import correction
        from fairlead_ingest.io.pipeline import preflight
        from fairlead_ingest.io.spark import session

        if any(correction.needs_spark(job) for job in jobs):
            with ingest_job.used(EXIT_USAGE):
                session.require_java(os.environ)
                preflight.check(settings, jobs)

    def judge(self, job: Pipeline) -> LetterJudge:
        from fairlead_ingest.io.letters import correction

        if not correction.needs_spark(job):
            return correction.PlainJudge(job)
        from fairlead_ingest.io.letters.correction import SparkJudge
        from fairlead_ingest.io.spark import session
        from fairlead_wire.io import logs

        if self._session is None:
            logs.configure("ingest", "warning")
            click.echo("starting Spark …", err=True)
            spark = self._settings.spark
            self._session = session.start(
                master=spark.master, driver_memory=spark.driver_memory, conf=spark.conf, name="fairlead-ingest-repair"
            )
            self._stop = self._session.stop
        return SparkJudge(self._session, self._settings, job)

    def stop(self) -> None:
        self._stop()


def _text(job: Pipeline, facts: dict[str, Any], dry_run: bool) -> str:
    would = "would be repaired" if dry_run else "repaired"
    lines = [
        f"{job.name}: {quantities.of(facts['letters'], 'dead letter')}, {facts['repaired']} {would} into {job.table}"
    ]
    for count, what in (
        (facts["already_there"], "already had rows, and are marked now"),
        (facts["kept"], "were left unchanged by the function"),
        (facts["unsettled"], "belong to a batch that is not in the table yet: run it again later"),
        (facts["unknown"], "lines of the file name no open dead letter of the selection"),
    ):
        if count:
            lines.append(f"  {count} {what}")
    for code, count in facts["still"].items():
        lines.append(f"  {count} {_STAYED.get(code, f'still do not fit: {code}')}")
    for each in facts["examples"]:
        fields = f" {', '.join(each['fields'])}" if each["fields"] else ""
        lines.append(printable.one_line(f"    {each['id']}  {each['topic']}  {each['code']}{fields}: {each['error']}"))
    return "\n".join(lines)
