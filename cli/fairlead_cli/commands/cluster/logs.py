"""`fairlead logs`: shows the logs of all Fairlead Pods, in order of time."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fairlead_cli import parameters
from fairlead_cli.cluster import collections, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Item
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer, tables
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import Style
from fairlead_cli.text import printable

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

    Find = Callable[[Kube], Awaitable[list["LogSource"]]]


OURS = "app.kubernetes.io/part-of=fairlead"
COMPONENT = "app.kubernetes.io/component"
SILENCE_SECONDS = 3600.0
PAUSE_SECONDS = 1.0
WAITING_MAX = 1000
"""Most lines buffered for the reader; beyond it, reading from Pods pauses."""
LOG_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes read of one Pod's log without --follow."""
LEVELS = ("debug", "info", "warning", "error", "critical")
_AHEAD = ("ts", "level", "event")
_LEFT_OUT = ("room", "logger", "exception", "exc_info")
VALUE_CHARS_MAX = 500
COMPONENTS = ("hub", "messaging", "ingest", "edge")
TAIL = 100
TAIL_MAX = 1_000_000
_STYLES: dict[str, Style] = {"warning": "warn", "error": "bad", "critical": "bad"}


def register(root: click.Group) -> None:
    """Add `logs` to the root command."""
    root.add_command(logs)


@click.command(short_help="Show the logs of the programs in the cluster.")
@click.argument("component", required=False, type=click.Choice(COMPONENTS))
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until interrupted.")
@click.option(
    "--since",
    type=parameters.Lifetime(datetime.timedelta(seconds=1), datetime.timedelta(days=365)),
    help="Only lines of this last time: 10m, 2h, 1d.",
)
@click.option(
    "--tail",
    type=click.IntRange(0, TAIL_MAX),
    help=f"At most this many lines of each container; default: {TAIL}, with --since all.",
)
@click.option("--previous", is_flag=True, help="Logs of the previous containers, to find out why they ended.")
@click.option("--node", shell_complete=names.nodes, help="Only lines about this node; with `edge`: of the agent there.")
@click.option("--event", "events", multiple=True, help="Only this event, for example session_opened; may be repeated.")
@click.option("--level", type=click.Choice(LEVELS), help="Only lines of this level or higher.")
@targets.options(namespace=True)
@printer.options(("text", "json"))
def logs(
    component: str | None,
    follow: bool,
    since: datetime.timedelta | None,
    tail: int | None,
    previous: bool,
    node: str | None,
    events: tuple[str, ...],
    level: str | None,
    target: Target,
    shown: Printer,
) -> None:
    """Show the logs of the chart's Pods (hub, messaging, ingest and agents), in order of time.

    Without COMPONENT, of all components; without -n, of all namespaces. `-o json` prints the lines unchanged. The log
    of an agent that does not run in a Pod is on its device: journalctl -u fairlead-edge.

    \b
    fairlead logs hub -f
    fairlead logs hub --node edge-1 --since 1h
    fairlead logs --level warning --since 1d
    """
    if follow and previous:
        raise click.UsageError("previous containers have ended: --previous and --follow exclude each other")
    query = _query(since, tail, previous)
    wanted = frozenset(events)
    about = None if component == "edge" else node

    async def find(kube: Kube) -> list[LogSource]:
        found = await sources(kube, target.given_namespace, component, node if component == "edge" else None)
        if not found:
            where = f"namespace {target.given_namespace}" if target.given_namespace else "the cluster"
            what = f"{component} Pod" if component else "Pod of Fairlead"
            remedy = "outside Kubernetes, read the program's own log"
            raise click.ClickException(f"found no running {what} in {where}; {remedy}")
        return found

    def show(lines: list[LogLine]) -> None:
        for line in lines:
            found = parse(line.text)
            if is_wanted(found, node=about, events=wanted, level=level):
                click.echo(_shown(line, found, shown), color=shown.is_colored)

    if not follow:
        show(target.ask(lambda kube: _read(kube, find, query)))
        return
    try:
        for lines in target.pages(lambda kube: _followed(kube, find, query)):
            if not printer.has_reader():
                return
            show(lines)
    except KeyboardInterrupt:
        return


def _query(since: datetime.timedelta | None, tail: int | None, previous: bool) -> dict[str, str]:
    query = {"sinceSeconds": str(int(since.total_seconds()))} if since is not None else {}
    if tail is not None or since is None:
        query["tailLines"] = str(TAIL if tail is None else tail)
    if previous:
        query["previous"] = "true"
    return query


async def _read(kube: Kube, find: Find, query: dict[str, str]) -> list[LogLine]:
    """The lines of all containers; those whose log cannot be read are skipped, unless all fail."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    lines: list[LogLine] = []
    refused: list[str] = []
    found = await find(kube)
    for source in found:
        try:
            lines += await read(kube, source, query)
        except ApiRefused as error:
            refused.append(f"{source.pod}: {error}")
    if len(refused) == len(found):
        raise click.ClickException("; ".join(refused))
    return sorted(lines)


async def _followed(kube: Kube, find: Find, query: dict[str, str]) -> AsyncIterator[list[LogLine]]:
    async for lines in follow(kube, await find(kube), query):
        yield lines


def _shown(line: LogLine, found: dict[str, Any] | None, shown: Printer) -> str:
    if not shown.is_for_people:
        return (
            printable.json_line(line.text)
            if found is not None
            else json.dumps({"ts": line.at, "pod": line.pod, "text": line.text})
        )
    if found is None:
        return printable.one_line(f"{line.at[11:23].ljust(12)}  {'':8}  {line.pod}  {line.text}")
    return tables.paint(text(found, line.pod), _STYLES.get(str(found.get("level")), "") if shown.is_colored else "")


# ── logs of the Pods ──────────────────────────────────────────────────────────────────────────────────────────────────


class LogLine(NamedTuple):
    """``at`` is the kubelet's timestamp, RFC 3339 with nanoseconds, which sorts as text."""

    at: str
    pod: str
    text: str


class LogSource(NamedTuple):
    """One container of one Pod."""

    namespace: str
    pod: str
    container: str

    @property
    def path(self) -> str:
        return f"api/v1/namespaces/{self.namespace}/pods/{self.pod}/log"


async def sources(kube: Kube, namespace: str | None, component: str | None, node: str | None) -> list[LogSource]:
    """Containers that have run, sorted by namespace and name; with ``node``, only of Pods on this node."""
    selector = OURS + (f",{COMPONENT}={component}" if component else "")
    path = f"api/v1/namespaces/{namespace}/pods" if namespace else "api/v1/pods"
    query = {"labelSelector": selector, **({"fieldSelector": f"spec.nodeName={node}"} if node else {})}
    found = [
        LogSource(str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]), name)
        for pod in await collections.items(kube, path, **query)
        for name in _started(pod)
    ]
    return sorted(found)


def _started(pod: Item) -> list[str]:
    """Names of containers that have a log."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return [
        str(each["name"]) for each in statuses if each.get("restartCount") or "waiting" not in (each.get("state") or {})
    ]


async def read(kube: Kube, source: LogSource, query: Mapping[str, str]) -> list[LogLine]:
    """The existing lines.  Raises ``ApiRefused``, ``ApiUnavailable``."""
    asked = {"container": source.container, "timestamps": "true", "limitBytes": str(LOG_BYTES_MAX), **query}
    content = await kube.get(source.path, **asked)
    return [line for raw in content.split(b"\n") if (line := _line(source, raw)) is not None]


async def follow(kube: Kube, found: list[LogSource], query: Mapping[str, str]) -> AsyncIterator[list[LogLine]]:
    """Existing and new lines of all sources; an empty list if there were none for a while.

    Ends when no container is running.
    """
    queue: asyncio.Queue[LogLine | Exception] = asyncio.Queue(WAITING_MAX)
    tasks = [asyncio.create_task(_follow(kube, each, query, queue)) for each in found]
    try:
        while not queue.empty() or not all(task.done() for task in tasks):
            batch: list[LogLine] = []
            with contextlib.suppress(TimeoutError):
                batch.append(_or_raise(await asyncio.wait_for(queue.get(), PAUSE_SECONDS)))
            while not queue.empty():
                batch.append(_or_raise(queue.get_nowait()))
            yield sorted(batch)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    kube: Kube, source: LogSource, query: Mapping[str, str], queue: asyncio.Queue[LogLine | Exception]
) -> None:
    """Put the lines of one container into the queue until it ends; a broken connection is resumed."""
    from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable

    asked = {"container": source.container, "timestamps": "true", "follow": "true", **query}
    last, of_last = "", 0
    while True:
        seen = of_last  # lines with that timestamp, which are repeated
        try:
            async for raw in kube.lines(source.path, asked, SILENCE_SECONDS):
                line = _line(source, raw)
                if line is None or line.at < last:
                    continue
                if line.at == last and seen:
                    seen -= 1
                    continue
                last, of_last = line.at, of_last + 1 if line.at == last else 1
                await queue.put(line)
            return
        except ApiUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
        except ApiRefused as error:
            await queue.put(error)
            return
        if last:
            asked.pop("tailLines", None)
            asked.pop("sinceSeconds", None)
            asked["sinceTime"] = f"{last[:19]}Z"  # whole seconds: lines already seen are skipped by ``last``


def _line(source: LogSource, raw: bytes) -> LogLine | None:
    at, _, text = raw.decode(errors="replace").partition(" ")
    return LogLine(_utc(at), source.pod, text) if at else None


def _utc(at: str) -> str:
    """The time in UTC with nine decimals, so that it sorts as text; other text is returned unchanged."""
    try:
        moment = datetime.datetime.fromisoformat(at).astimezone(datetime.UTC)
    except ValueError:
        return at
    fraction = at.partition(".")[2].rstrip("Z").partition("+")[0].partition("-")[0]
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction[:9].ljust(9, '0')}Z"


def _or_raise(found: LogLine | Exception) -> LogLine:
    if isinstance(found, Exception):
        raise found
    return found


# ── lines of logs, as people read them ────────────────────────────────────────────────────────────────────────────────


def parse(line: str) -> dict[str, Any] | None:
    """Decode a line of ours; None for other lines, such as a traceback."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def is_wanted(found: dict[str, Any] | None, *, node: str | None, events: frozenset[str], level: str | None) -> bool:
    """True if a line passes the filters; a line that is not ours passes only if there are none."""
    if found is None:
        return node is None and not events and level is None
    if node is not None and node not in (found.get("node"), found.get("edge")):
        return False
    if events and found["event"] not in events:
        return False
    said = str(found.get("level", "info"))
    return level is None or said not in LEVELS or LEVELS.index(said) >= LEVELS.index(level)


def text(found: dict[str, Any], who: str) -> str:
    """The line for people, with control characters escaped."""
    clock = str(found.get("ts", ""))[11:23]
    rest = [f"{name}={_value(value)}" for name, value in found.items() if name not in _AHEAD and name not in _LEFT_OUT]
    parts = [clock.ljust(12), str(found.get("level", "")).ljust(8), who, str(found["event"]), *rest]
    return printable.one_line("  ".join(parts[:4]) + "".join(f" {each}" for each in parts[4:]))


def _value(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(value)
    said = said if len(said) <= VALUE_CHARS_MAX else f"{said[:VALUE_CHARS_MAX]}…"
    return json.dumps(said) if " " in said or not said else said
