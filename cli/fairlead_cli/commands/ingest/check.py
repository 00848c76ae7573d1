"""`fairlead ingest check`: tries a contract on real messages, its previous version and the table before it goes live.

`--guess` proposes a contract.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import printable, quantities
from fairlead_cli.text.printable import one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from fairlead_ingest.contracts.proposal import Proposal
    from fairlead_ingest.contracts.trial import TrialOutcome
    from fairlead_ingest.io.table.table_format import TableFormat
    from fairlead_ingest.rows.contract import Contract
    from fairlead_ingest.settings import IngestSettings
    from fairlead_ingest.table.store_path import Place


# Most entries shown of each list; JSON has all of them.
SHOWN_MAX = 20
_NAME_CHARS_MAX = 60
_BROKEN = {"refused": "refused", "removed": "breaks", "stricter": "breaks", "version": "version"}
_MEANINGS = {
    "not_utf8": "is not UTF-8 text",
    "not_json": "is not JSON",
    "not_an_object": "is not an object",
    "too_deep": "is nested too deep",
    "bad_field": "cannot be read",
    "other": "is refused",
}
EXIT_UNFIT = 1
EXIT_USAGE = 2
LAST = 10_000
# Longest name of a contract; a topic's name may be longer.
NAME_CHARS_MAX = 128
LAST_MAX = 1_000_000_000

Topic = tuple[str, str]
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Check whether the messages of a topic fit a contract, before it goes live.")
@click.argument("contract", type=_FILE, required=False)
@click.argument("topic", type=messaging_client.TopicName(), required=False)
@click.option(
    "--last",
    type=click.IntRange(1, LAST_MAX),
    help=f"How many of the newest messages to read; default: {LAST}, with --since all.",
)
@click.option(
    "--since",
    type=parameters.MomentParameter(),
    metavar="TIME",
    help="Read messages since this time: 2026-11-20T12:00Z, 15m, 7d.",
)
@click.option("--against", type=_FILE, metavar="CONTRACT", help="Compare with this previous version.")
@click.option("--table", metavar="TABLE", help="Check that the contract fits this table, a directory or s3:// address.")
@click.option("--pipeline", help="With --config: only this pipeline.")
@click.option(
    "--guess", type=messaging_client.TopicName(), metavar="TOPIC", help="Print a contract proposed from this topic."
)
@click.option("--name", help="With --guess: the contract's name; default: the topic's.")
@messaging_client.options
@messaging_client.output
@click.pass_context
def check(
    context: click.Context,
    contract: Path | None,
    topic: Topic | None,
    last: int | None,
    since: int | None,
    against: Path | None,
    table: str | None,
    pipeline: str | None,
    guess: Topic | None,
    name: str | None,
    output: str,
) -> None:
    """Try a contract on the messages of a topic: which would become rows, which dead letters, and why.

    CONTRACT is a contract or schema file, as in a job's `schema`. Messages are judged by the job's own code, without
    its transforms. Only committed messages are read, and nothing is changed. Without TOPIC, only the file is checked,
    and what --against, --table and --config add.

    --config FILE takes from a job's settings the address of the service, the topics if TOPIC is not given, the schema
    if CONTRACT is not given, and the table that the contract has to fit.

    Exit codes: 0 all messages fit and nothing breaks; 1 some do not fit, or a change breaks something; 2 wrong use, or
    an invalid contract.

    \b
    fairlead ingest check telemetry.toml default/telemetry --last 100000
    fairlead ingest check telemetry.toml --against telemetry.v2.toml
    fairlead ingest check --guess default/telemetry > telemetry.toml
    """
    if guess is not None:
        if contract is not None or against is not None or table is not None:
            raise click.UsageError("--guess reads messages only: no CONTRACT, --against or --table")
        with _explained(context):
            _propose(context, guess, name or guess[1][:NAME_CHARS_MAX], last, since, output)
        return
    with _explained(context):
        answers = [
            _check(context, each, against, last, since)
            for each in _asked(context.params.get("config"), pipeline, contract, topic, table)
        ]
    if output == "json":
        click.echo(json.dumps(answers[0] if len(answers) == 1 else {"checks": answers}, indent=1))
    else:
        for answer in answers:
            click.echo("\n".join(lines(answer)))
    if not all(answer["passed"] for answer in answers):
        raise SystemExit(EXIT_UNFIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A contract, the topics to try it on, and the tables (format and place) that it has to fit."""

    contract: Path
    topics: list[str]
    tables: list[tuple[str, TableFormat, Place]]


def _asked(
    config: Path | None, pipeline: str | None, contract: Path | None, topic: Topic | None, table: str | None
) -> list[_Asked]:
    """Combine the options with the settings of a job.  Raises ``click.UsageError``."""
    named = ["/".join(topic)] if topic else []
    if config is None:
        if contract is None:
            raise click.UsageError("which contract? name its file, or a job's settings with --config")
        if pipeline is not None:
            raise click.UsageError("--pipeline needs --config")
        return [_Asked(contract=contract, topics=named, tables=_place(table, None))]
    from fairlead_ingest.io.table import tables

    settings = _settings(config)
    jobs = [job for job in settings.jobs() if pipeline in (None, job.name)]
    if not jobs:
        raise click.UsageError(f"no pipeline {pipeline!r}; there is {', '.join(job.name for job in settings.jobs())}")
    found = []
    for job in jobs:
        if topic and named[0] not in job.topics and pipeline is None:
            continue
        file = contract or (Path(job.schema_file) if job.schema_file else None)
        if file is not None:
            places = _place(table, settings)
            if table is None:
                name = str(job.table_format or settings.table_format)
                places = [(name, tables.of_pipeline(settings, job), settings.place(job.table))]
            found.append(_Asked(contract=file, topics=named or job.topics, tables=places))
    if not found and contract is not None:
        return [_Asked(contract=contract, topics=named, tables=_place(table, settings))]
    if not found:
        raise click.UsageError(f"no schema in {config}: name a CONTRACT")
    return found


def _place(table: str | None, settings: IngestSettings | None) -> list[tuple[str, TableFormat, Place]]:
    """A table given by its place, which must be a Delta table: other formats need a catalog."""
    from fairlead_ingest.io.table import tables
    from fairlead_ingest.table import store_path
    from fairlead_ingest.table.store_path import Storage

    if table is None:
        return []
    try:
        place = settings.place(table) if settings else store_path.place(table, Storage())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--table") from None
    return [(tables.DELTA, tables.of(tables.DELTA), place)]


def _settings(config: Path) -> IngestSettings:
    from fairlead_ingest.settings import IngestSettings
    from fairlead_wire.io import settings as settings_file

    try:
        return settings_file.load("ingest", IngestSettings, config, os.environ)
    except settings_file.SettingsError as error:
        raise SystemExit(settings_file.complain("ingest", error)) from None


@contextmanager
def _explained(context: click.Context) -> Iterator[None]:
    """Turn errors into a sentence and an exit code: 2 for an invalid contract, else 1."""
    from deltalake.exceptions import DeltaError

    from fairlead_ingest import errors
    from fairlead_wire.errors import FairleadError, Temporary

    try:
        yield
    except FairleadError as error:
        reason = getattr(error, "reason", "") or str(error)
        click.echo(printable.lines(f"fairlead ingest: {reason}"), err=True)
        account = context.find_object(messaging_client.Account)
        if isinstance(error, Temporary) and account is not None and not account.named:
            click.echo("fairlead ingest: that is the default; name the service with --url or --config", err=True)
        raise SystemExit(EXIT_USAGE if str(error).startswith(errors.SCHEMA_BROKEN) else EXIT_UNFIT) from None
    except (OSError, DeltaError) as error:
        click.echo(printable.lines(f"fairlead ingest: {errors.explain(str(error))[1]}"), err=True)
        raise SystemExit(EXIT_UNFIT) from None


def _check(
    context: click.Context, asked: _Asked, against: Path | None, last: int | None, since: int | None
) -> dict[str, Any]:
    """Check one contract; returns the JSON answer."""
    from fairlead_ingest.contracts import comparison
    from fairlead_ingest.io import contracts

    contract = contracts.read(asked.contract)
    answer: dict[str, Any] = {
        "contract": {
            "file": str(asked.contract),
            "name": contract.name,
            "version": contract.version,
            "mode": contract.mode,
            "columns": len(contract.columns.fields),
            "routes": len(contract.routes),
        }
    }
    passed = True
    if against is not None:
        found = comparison.changes(contracts.read(against), contract)
        passed = not any(each.is_breaking for each in found)
        answer["against"] = {"file": str(against), "changes": [asdict(each) for each in found]}
    for name, table_format, place in asked.tables:
        seen = contracts.changes(name, table_format, place, contract)
        passed = passed and not any(each.is_breaking for each in seen or ())
        changes = None if seen is None else [asdict(each) for each in seen]
        answer.setdefault("tables", []).append({"table": str(place), "exists": seen is not None, "changes": changes})
    for topic in asked.topics:
        outcome = _play(context, contract, topic, last, since)
        passed = passed and outcome.all_fit
        answer.setdefault("topics", []).append({"topic": topic, **asdict(outcome)})
    return {**answer, "passed": passed}


def _play(context: click.Context, contract: Contract, topic: str, last: int | None, since: int | None) -> TrialOutcome:
    from fairlead_ingest.contracts.trial import Trial

    trial = Trial(contract)
    for page in _pages(context, f"checking {topic}, messages", topic, last, since):
        trial.play(topic, page["id"], page["ts"], page["payload"])
    return trial.outcome()


def _propose(context: click.Context, topic: Topic, name: str, last: int | None, since: int | None, output: str) -> None:
    """Print a contract that fits the messages."""
    from fairlead_ingest import errors
    from fairlead_ingest.contracts.proposal import Proposal
    from fairlead_ingest.rows import contract_file

    proposal, full = Proposal(), "/".join(topic)
    for page in _pages(context, f"reading {full}, messages", full, last, since):
        proposal.learn(full, page["id"], page["ts"], page["payload"])
    if nothing := proposal.nothing():
        click.echo(f"fairlead ingest: {full}: no contract to propose: {printable.one_line(nothing)}", err=True)
        raise SystemExit(EXIT_UNFIT)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = proposal.text(name, f"Proposed from {_basis(proposal)} of {full}, {now}. Review every line.")
    try:
        contract_file.parse(text, contract_file.TOML_ENDING)
    except errors.Stop as error:
        reason = str(error).removeprefix(f"{errors.SCHEMA_BROKEN}: {contract_file.TOML_ENDING}: ")
        raise click.BadParameter(reason, param_hint="--name") from None
    if output == "json":
        counts = {"messages": proposal.objects, "left_out": proposal.messages - proposal.objects}
        text = json.dumps({"topic": full, **counts, "contract": text}) + "\n"
    click.echo(text, nl=False)


def _basis(proposal: Proposal) -> str:
    """How many messages the contract was made from, and how many it knows nothing about."""
    read = quantities.of(proposal.objects, "message")
    left = proposal.messages - proposal.objects
    if not left:
        return read
    return f"{read} of {proposal.messages} ({left} cannot be read, or the body is not an object)"


def _pages(
    context: click.Context, label: str, topic: str, last: int | None, since: int | None
) -> Iterator[pa.RecordBatch]:
    """Pages of committed messages; standard error shows the progress."""
    from fairlead_ingest.io import contracts
    from fairlead_messaging.client.io.sync_client import BulkClient

    account = context.find_object(messaging_client.Account)
    assert account is not None
    wanted = LAST if last is None and since is None else last
    with BulkClient(account.url, tls=messaging_client.tls_of(account)) as client, ProgressBar(label) as bar:
        found = contracts.stretch(client, topic, last=wanted, since_ms=since)
        bar.expect(found.rows)
        for page in contracts.pages(client, found):
            yield page
            bar.add(page.num_rows)


# ── the report for people ─────────────────────────────────────────────────────────────────────────────────────────────


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines for people of one answer."""
    contract = answer["contract"]
    title = f"{contract['name']} version {contract['version']}" if contract["name"] else "no name and version"
    routes = f", {quantities.of(contract['routes'], 'route')}" if contract["routes"] else ""
    columns = quantities.of(contract["columns"], "column")
    yield one_line(f"{contract['file']}: {title}, {contract['mode']}, {columns}{routes}")
    if "against" in answer:
        yield f"against {one_line(answer['against']['file'])}:"
        yield from _changes(answer["against"]["changes"])
    for table in answer.get("tables", ()):
        if table["exists"]:
            yield f"table {one_line(table['table'])}:"
            yield from _changes(table["changes"])
        else:
            yield f"table {one_line(table['table'])}: does not exist yet"
    for topic in answer.get("topics", ()):
        yield from _topic(topic)
    if not answer.get("topics"):
        yield "no messages were tried; name a TOPIC"


def _changes(changes: list[Mapping[str, Any]]) -> Iterator[str]:
    if not changes:
        yield "  nothing changes"
    for each in changes:
        where = " ".join(one_line(part) for part in (_route(each["route"]), each["column"]) if part)
        kind = _BROKEN.get(each["kind"], "ok")
        yield f"  {kind:<8} {where}{' ' if where else ''}{one_line(each['what'])}"


def _route(name: str) -> str:
    return f"route {name}:" if name else ""


def _topic(topic: Mapping[str, Any]) -> Iterator[str]:
    plural = "" if topic["messages"] == 1 else "s"
    parts = [f"{topic['messages']:,} message{plural}", f"{topic['fit']:,} fit"]
    if topic["rescued"]:
        parts.append(f"{topic['rescued']:,} would be rescued")
    if topic["dead_letters"] or topic["fit"] == topic["messages"]:
        parts.append(f"{topic['dead_letters']:,} would be dead letters")
    yield f"{one_line(topic['topic'])}: {', '.join(parts)}"
    for each in topic["wrong"][:SHOWN_MAX]:
        yield f"  {each['messages']:>9,}  {each['code']}: {_wrong(each)}"
        yield f"             {each['example_id']}: {one_line(each['example']) or '(nothing)'}"
    yield from _more(len(topic["wrong"]) - SHOWN_MAX, "ways not to fit")
    if topic["unknown"]:
        yield "  fields without a column:"
    for each in topic["unknown"][:SHOWN_MAX]:
        yield f"  {each['messages']:>9,}  {_name(each['name'])}: {each['type'] or 'only null'}"
    yield from _more(len(topic["unknown"]) - SHOWN_MAX, "fields")
    if topic["untold"]:
        yield f"  and more that are not listed one by one, {topic['untold']:,} times"
    for name, messages in topic["routes"].items():
        what = f"route {one_line(name)}" if name else "no route"
        yield f"  {messages:>9,}  {what}"
    silent = [name for name, messages in topic["routes"].items() if name and not messages]
    if silent:
        yield f"  no message for {', '.join(map(one_line, silent))}"


def _more(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f"  and {count} more {what}; -o json lists them"


def _wrong(kind: Mapping[str, Any]) -> str:
    name = _name(kind["field"]) if kind["field"] else "body" if kind["code"] == "misfit" else "payload"
    meaning = kind["reason"] or _MEANINGS.get(kind["code"], "is not of its type")
    return f"{name}: {one_line(meaning)}"


def _name(text: str) -> str:
    return one_line(text if len(text) <= _NAME_CHARS_MAX else f"{text[:_NAME_CHARS_MAX]}…")
