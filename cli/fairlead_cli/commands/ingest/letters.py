"""`fairlead ingest deadletters`: counts, lists and exports messages that did not become rows."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead_cli.commands.ingest import job_options as ingest_job
from fairlead_cli.default_command import DefaultCommand
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.parameters import MomentParameter as TimeParameter
from fairlead_cli.text import printable, quantities

if TYPE_CHECKING:
    from fairlead_ingest.dead_letters import LetterSelection
    from fairlead_ingest.io.table.table_format import TableFormat
    from fairlead_ingest.settings import IngestSettings, Pipeline
    from fairlead_ingest.table.store_path import Place

F = TypeVar("F", bound=Callable[..., Any])
SHOWN_DEFAULT = 100
PAYLOAD_CHARS = 2000
ERROR_CHARS = 160
STATES = ("open", "repaired", "all")


def register(root: click.Group) -> None:
    """Add `deadletters` to `ingest`."""
    group = root.commands["ingest"]
    assert isinstance(group, click.Group)
    group.add_command(deadletters)


def job_options(command: F) -> F:
    """`--config`, `--pipeline`."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--pipeline", help="Only this pipeline."),
        click.option("--config", type=path, help="The job's settings file, as for `run`."),
    ):
        command = option(command)
    return command


def selection_options(command: F) -> F:
    """Adds the options that select letters."""
    for option in (
        click.option("--until", type=TimeParameter(), metavar="TIME", help="Published before this time."),
        click.option(
            "--since", type=TimeParameter(), metavar="TIME", help="Published at this time or later: a time, or 15m."
        ),
        click.option(
            "--id", "ids", multiple=True, metavar="ID", help="Only this dead letter (`_id`); may be repeated."
        ),
        click.option(
            "--topic", "topics", multiple=True, metavar="NS/NAME", help="Only of this topic; may be repeated."
        ),
        click.option(
            "--code", "codes", multiple=True, help="Only with this code (for example misfit); may be repeated."
        ),
    ):
        command = option(command)
    return command


def selection(
    codes: tuple[str, ...], topics: tuple[str, ...], ids: tuple[str, ...], since: int | None, until: int | None
) -> LetterSelection:
    """The selection that the options describe."""
    from fairlead_ingest.dead_letters import UNKNOWN, LetterSelection
    from fairlead_ingest.rows.letter_code import CODES
    from fairlead_wire.validation import mistakes

    for code in codes:
        if code not in (known := (*CODES, UNKNOWN)):
            meant = mistakes.nearest(code, known)
            hint = f"did you mean {meant}?" if meant else f"the codes are {', '.join(known)}"
            raise click.BadParameter(f"there is no code {code!r}; {hint}", param_hint="--code")
    return LetterSelection(
        codes=frozenset(codes),
        topics=frozenset(topics),
        ids=frozenset(each.lower() for each in ids),
        since_ms=since,
        until_ms=until,
    )


state_option = click.option(
    "--state",
    type=click.Choice(STATES),
    default="open",
    show_default=True,
    help="Which dead letters; repaired ones have become rows.",
)


@click.group(cls=DefaultCommand, default="summary", short_help="Count, list and export the dead letters of a table.")
def deadletters() -> None:
    """Show messages that did not become rows, with code, fields and reason. Without a command: `summary`.

    \b
    fairlead ingest deadletters --config ingest.toml
    fairlead ingest deadletters list --config ingest.toml --code misfit --since 1h
    fairlead ingest deadletters export letters.jsonl --config ingest.toml
    fairlead ingest repair --config ingest.toml --edited letters.jsonl

    They stay in `<table>_dead_letters`, even after they have been repaired.
    """


@deadletters.command()
@selection_options
@state_option
@job_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def summary(config: Path | None, pipeline: str | None, output: str, state: str, **chosen: Any) -> None:
    """Count dead letters by topic, code and field, with times and an example of the reason.

    A letter that names several fields is counted for each.
    """
    from fairlead_ingest.io.letters import letters

    settings, jobs = ingest_job.load(config, pipeline)
    wanted = selection(**chosen)
    found = []
    for job in jobs:
        with ProgressBar(f"counting dead letters of {job.name}", passing=True) as bar, ingest_job.explained():
            place = _place(settings, job)
            found.append(letters.summary(*place, job.name, wanted, state, progress=bar.add, expect=bar.expect))
    if output == "json":
        click.echo(json.dumps({"pipelines": found}, indent=1))
        return
    for each in found:
        count = quantities.of(each["open"], "dead letter")
        click.echo(f"{each['name']}: {count} open, {each['repaired']} repaired (table {each['table']})")
        for kind in each["kinds"]:
            what = " ".join([kind["code"], *([kind["field"]] if kind["field"] else [])])
            times = kind["first"] if kind["first"] == kind["last"] else f"{kind['first']} to {kind['last']}"
            click.echo(printable.one_line(f"  {kind['letters']}  {what}  {kind['topic']}  {times}"))
            click.echo(printable.one_line(f"      {_cut(kind['example'], ERROR_CHARS)}"))


@deadletters.command("list")
@selection_options
@state_option
@click.option("--limit", type=click.IntRange(1), help=f"Most letters to list.  [default: {SHOWN_DEFAULT}; jsonl: all]")
@job_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True)
def list_(config: Path | None, pipeline: str | None, output: str, state: str, limit: int | None, **chosen: Any) -> None:
    """List dead letters, one line each, by topic; jsonl has the complete letters, as `export` writes them."""
    settings, jobs = ingest_job.load(config, pipeline)
    bound = limit if limit is not None or output == "jsonl" else SHOWN_DEFAULT
    shown: list[Any] = []
    with ingest_job.explained():
        for job in jobs:
            for letter, line in _letters(settings, job, selection(**chosen), state, bound):
                if output == "jsonl":
                    click.echo(line, nl=False)
                elif output == "json":
                    shown.append(json.loads(line))
                else:
                    fields = f" {', '.join(letter['fields'])}" if letter["fields"] else ""
                    head = f"{letter['_id']}  {letter['_topic']}  {letter['_published_at']:%Y-%m-%dT%H:%M:%SZ}"
                    reason = f"{letter['code'] or 'unknown'}{fields}: {_cut(letter['error'] or '', ERROR_CHARS)}"
                    click.echo(printable.one_line(f"{head}  {reason}"))
    if output == "json":
        click.echo(json.dumps(shown, indent=1))


@deadletters.command()
@click.argument("letter_id", metavar="ID")
@click.option("--topic", "topics", multiple=True, metavar="NS/NAME", help="Required if two topics have this id.")
@job_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(config: Path | None, pipeline: str | None, output: str, letter_id: str, topics: tuple[str, ...]) -> None:
    """Show the complete letter with this `_id`; exit 1 if there is none.

    Text truncates a long payload; json has all of it.
    """
    settings, jobs = ingest_job.load(config, pipeline)
    chosen = selection((), topics, (letter_id,), None, None)
    is_found = False
    with ingest_job.explained():
        for job in jobs:
            for letter, line in _letters(settings, job, chosen, "all", None):
                is_found = True
                if output == "json":
                    click.echo(line, nl=False)
                    continue
                for name in ("_topic", "_id", "_published_at", "code", "fields", "error"):
                    value = ", ".join(letter[name]) if name == "fields" else letter[name]
                    click.echo(printable.one_line(f"{name.removeprefix('_') + ':':14}{value or 'none'}"))
                payload = (letter["payload"] or b"").decode(errors="backslashreplace")
                click.echo(f"payload:      {printable.lines(_cut(payload, PAYLOAD_CHARS))}")
    if not is_found:
        click.echo(f"{letter_id}: no dead letter of {', '.join(job.table for job in jobs)}", err=True)
        raise SystemExit(ingest_job.EXIT_FAILED)


@deadletters.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists; your edits in it are lost.")
@selection_options
@state_option
@job_options
def export(config: Path | None, pipeline: str | None, file: Path, state: str, force: bool, **chosen: Any) -> None:
    """Export dead letters to FILE (`-`: standard output) as JSON lines; edit it for `fairlead ingest repair --edited`.

    A payload that is not UTF-8 is in `payload_base64`. You may also write a payload as an object: "payload": {…}. FILE
    is created only when it is complete, and overwritten only with --force.
    """
    if str(file) != "-" and not force and os.path.lexists(file):
        raise click.UsageError(f"{file} already exists: name another file, or use --force")
    settings, jobs = ingest_job.load(config, pipeline)
    wanted = selection(**chosen)
    if str(file) == "-":
        with ingest_job.explained():
            for job in jobs:
                for _, line in _letters(settings, job, wanted, state, None):
                    click.echo(line, nl=False)
        return
    # A short name, because FILE's own name may already be as long as the file system allows.
    draft = file.absolute().parent / f".fairlead-{os.getpid()}"
    count = 0
    try:
        with draft.open("wb") as out, ProgressBar("exporting, dead letters") as bar, ingest_job.explained():
            for job in jobs:
                for _, line in _letters(settings, job, wanted, state, None):
                    out.write(line)
                    count += 1
                    bar.add(1)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}; name another file") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    click.echo(f"{file}: {quantities.of(count, 'dead letter')}", file=sys.stderr)


def _letters(
    settings: IngestSettings, job: Pipeline, chosen: LetterSelection, state: str, limit: int | None
) -> Iterator[tuple[dict[str, Any], bytes]]:
    from fairlead_ingest import dead_letters
    from fairlead_ingest.io.letters import letters

    with contextlib.ExitStack() as looking:
        bar = looking.enter_context(ProgressBar(f"looking through dead letters of {job.name}", passing=True))
        for letter in letters.read_letters(*_place(settings, job), chosen, state, limit, bar.add):
            looking.close()  # before the first line of output
            yield letter, dead_letters.encode(letter)


def _place(settings: IngestSettings, job: Pipeline) -> tuple[TableFormat, Place]:
    from fairlead_ingest.io.table import tables

    return tables.of_pipeline(settings, job), settings.place(job.table)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]} … ({len(text)} characters)"
