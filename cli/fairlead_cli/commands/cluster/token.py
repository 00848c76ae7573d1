"""`fairlead token`: creates, lists and revokes join tokens."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fairlead_cli.cluster import collections, join_tokens, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.join_tokens import HubAddresses, Made, TokenOptions
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.output.tables import OutputColumn, Style, TableView
from fairlead_cli.parameters import Lifetime
from fairlead_cli.text import printable, quantities
from fairlead_wire.identity import join_token, node_names
from fairlead_wire.objects import api_group
from fairlead_wire.validation import mistakes

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


NAMES_MAX = 10_000
NAMES_BYTES_MAX = 4 * 1024 * 1024
_PATTERN = re.compile(r"[-a-z0-9.]{0,252}\*")


TTL_MIN, TTL_MAX = datetime.timedelta(minutes=1), datetime.timedelta(days=30)
USES_MAX = 1000
SHOWN_MAX = 10
THE_NODE = "\0"
"""Value of --replace without a name."""
HUB_PLACEHOLDER = "wss://HUB:PORT"


def register(root: click.Group) -> None:
    """Add `token` to the root command."""
    for command in (create, listed, revoke):
        token.add_command(command)
    root.add_command(token)


@click.group("token", short_help="Admit devices: create, list and revoke join tokens.")
def token() -> None:
    """Manage join tokens, with which devices get their identity (`fairlead edge join`).

    A token admits one node, or a number of nodes whose names match a pattern. Its secret is shown only once; the
    cluster keeps its hash in a JoinToken. Anyone who may create JoinTokens may admit nodes.
    """


# ── fairlead token create ─────────────────────────────────────────────────────────────────────────────────────────────


@click.command("create", short_help="Create a token, or one for each name in a file.")
@click.option("--node", metavar="NAME", shell_complete=names.nodes, help="Name of the node that the token admits.")
@click.option("--pattern", metavar="'shop-*'", help="Pattern of admitted node names: a prefix, then *.")
@click.option(
    "--file",
    "names_file",
    type=click.File("rb"),
    metavar="FILE|-",
    help="Create a token for each line, which names a node.",
)
@click.option(
    "--uses",
    type=click.IntRange(1, USES_MAX),
    default=1,
    show_default=True,
    help="With --pattern: how many nodes it admits.",
)
@click.option(
    "--ttl",
    type=Lifetime(TTL_MIN, TTL_MAX),
    default="1h",
    show_default=True,
    help="How long the token is valid: 30m, 12h, 30d.",
)
@click.option(
    "--replace",
    is_flag=False,
    flag_value=THE_NODE,
    metavar="[NAME]",
    shell_complete=names.nodes,
    help="For a device that replaces a lost one: the node's current identity is revoked when the new device joins.",
)
@click.option(
    "--create-node", is_flag=True, help="Create the Node, with the label of edge nodes, if it does not exist."
)
@click.option(
    "--hub",
    metavar="wss://HUB:PORT",
    help="Address at which devices reach the hub; default: the one that the hub announces.",
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="CA that signed the hub's certificate; default: the one the hub announces.",
)
@targets.options()
@printer.options(printer.DOCUMENTS)
def create(
    node: str | None,
    pattern: str | None,
    names_file: BinaryIO | None,
    uses: int,
    ttl: datetime.timedelta,
    replace: str | None,
    create_node: bool,
    hub: str | None,
    ca_file: Path | None,
    target: Target,
    shown: Printer,
) -> None:
    """Create a token; print it and the command to paste on the device.

    With --file only the tokens are printed, one per line, in the order of the names; -o json includes the names.

    \b
    fairlead token create --node shop-17
    fairlead token create --pattern 'shop-*' --uses 50 --ttl 7d
    fairlead token create --file names.txt --ttl 30d > tokens.txt
    fairlead token create --node shop-17 --replace
    """
    if replace not in (None, THE_NODE):
        if node not in (None, replace):
            raise click.UsageError(f"--replace {replace} and --node {node} are two nodes; name one")
        node = replace
    if [node, pattern, names_file].count(None) != 2:
        raise click.UsageError("give exactly one of --node NAME, --pattern 'shop-*' and --file FILE")
    if pattern is None and uses != 1:
        raise click.UsageError("--uses is for --pattern: a node joins once")
    if pattern is not None and replace is not None:
        raise click.UsageError("--replace needs the name of the node (--node NAME), not a pattern")
    if pattern is not None and create_node:
        raise click.UsageError("--create-node needs names (--node NAME, --file FILE), not a pattern")
    whom = requested_names(names_file) if names_file is not None else [admitted(node, pattern)]
    known = HubAddresses(url=requested_url(hub) if hub else "", pins=pins_of(ca_file) if ca_file else ())
    nodes = [] if pattern is not None else whom

    async def make(kube: Kube) -> tuple[list[Made], HubAddresses, list[tuple[str, Exception]], str]:
        ends = await targets.ask_time(kube) + ttl
        made = await _make(kube, TokenOptions(expires=ends, uses=uses, replace=replace is not None), whom, known, shown)
        return *made, targets.clock_note(kube)

    made, found, failed, clock = target.ask(make)
    documents = [_document(each, found) for each in made]
    if not shown.is_for_people:
        shown.items(view(quantities.utc()), documents) if names_file is not None else shown.document(documents[0])
    elif names_file is not None:
        click.echo("".join(f"{each['token']}\n" for each in documents), nl=False)
    else:
        [document] = documents
        click.echo(f"{document['token']}\n{document['command']}")
        shown.say(_explained(document, found, ttl))
    if clock:
        shown.say(clock)
    try:
        # After printing the tokens, which are shown only once: the user may not be allowed to read Nodes.
        target.ask(lambda kube: _check_nodes(kube, nodes, create_node, shown))
    except click.ClickException as unseen:
        if create_node:
            raise
        shown.say(f"could not check whether the Node exists: {unseen.format_message()}")
    _warn_of_identities(nodes, replace is not None, target, shown)
    if failed:
        for name, error in failed[:SHOWN_MAX]:
            shown.say(f"{name}: {error}")
        raise click.ClickException(f"{len(failed)} of {len(whom)} tokens could not be created; repeat for these names")


async def _make(
    kube: Kube, wanted: TokenOptions, whom: Sequence[str], known: HubAddresses, shown: Printer
) -> tuple[list[Made], HubAddresses, list[tuple[str, Exception]]]:
    """Create the first token alone: it shows whether this is permitted, and makes a hub announce itself."""
    first = await join_tokens.create(kube, wanted, whom[0])
    hub = known
    if not (known.url and known.pins):
        seconds = join_tokens.HUB_SECONDS
        try:
            seen = await join_tokens.introduced(kube, first.token.id, 0.0 if known.pins else seconds)
        except BaseException:
            await join_tokens.delete(kube, first.token.id)
            raise
        if seen is None and not known.pins:
            await join_tokens.delete(kube, first.token.id)
            raise join_tokens.no_hub()
        hub = HubAddresses(url=known.url or (seen.url if seen else ""), pins=known.pins or (seen.pins if seen else ()))
    if len(whom) == 1:
        return [first], hub, []
    with ProgressBar("join tokens", len(whom)) as progress:
        progress.add(1)
        rest = await join_tokens.create_all(kube, wanted, whom[1:], progress.advance)
    made = [first, *(each for each in rest if isinstance(each, Made))]
    failed = [(name, each) for name, each in zip(whom[1:], rest, strict=True) if isinstance(each, Exception)]
    return made, hub, failed


async def _check_nodes(kube: Kube, nodes: Sequence[str], create_node: bool, shown: Printer) -> None:
    """Report missing and unlabelled Nodes: a device can join without its Node, but gets no session."""
    if not nodes:
        return
    missing, plain = await join_tokens.unsuitable_nodes(kube, nodes)
    if missing and create_node:
        await join_tokens.create_nodes(kube, missing)
        shown.say(f"created the Node{'s' if len(missing) > 1 else ''} {_some(missing)}")
    elif missing:
        shown.say(
            f"there is no Node {_some(missing)} yet: the device can join, but gets nothing until the Node exists;"
            " create it with --create-node"
        )
    if plain:
        label = api_group.label(plain[0])
        shown.say(f"Node {_some(plain)} lacks the label of edge nodes, so the hub does not serve it: {label}")


def _warn_of_identities(nodes: Sequence[str], replaces: bool, target: Target, shown: Printer) -> None:
    """Report names that the token cannot give to a device, and replacements of what never was."""
    if not nodes:
        return

    async def asked(kube: Kube) -> tuple[dict[str, dict[str, Any]], str]:
        return await join_tokens.identities(kube, nodes), f"{targets.server_time(kube):{join_tokens.RFC_3339}}"

    try:
        found, now = target.ask(asked)
    except click.ClickException as unseen:
        shown.say(f"could not check whether a device has this name: {unseen.format_message()}")
        return
    if replaces:
        if never := [name for name in nodes if not found.get(name, {}).get("issued")]:
            shown.say(f"no device has connected as {_some(never)} yet, so there is nothing to replace: check the name")
        return
    if taken := [name for name in nodes if _is_in_use(found.get(name, {}), now)]:
        remedy = f"to replace it: fairlead token create --node {taken[0]} --replace"
        shown.say(f"a device has joined as {_some(taken)}, so the hub refuses another one (name_taken); {remedy}")


def _is_in_use(identity: dict[str, Any], now: str) -> bool:
    return bool(identity.get("issued")) and identity.get("state") != "Revoked" and str(identity.get("expires")) > now


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return ", ".join(found[:SHOWN_MAX]) + more


def _document(made: Made, hub: HubAddresses) -> dict[str, Any]:
    text = join_token.JoinToken(id=made.token.id, secret=made.token.secret, pins=hub.pins).text
    node = '"$(hostname)"' if made.whom.endswith("*") else made.whom
    command = f"echo {text} | sudo fairlead edge join {hub.url or HUB_PLACEHOLDER} --token-file - --node {node}"
    return {**made.document, "token": text, "hub": hub.url, "command": command}


def _explained(document: dict[str, Any], hub: HubAddresses, ttl: datetime.timedelta) -> str:
    spec = document["spec"]
    whom = f"node {spec['node']}" if "node" in spec else _matching(spec["uses"], spec["pattern"])
    lines = [
        f"The token admits {whom}, until {spec['expires']}; it is shown only once. Paste the second line on the device."
    ]
    if spec["replace"]:
        lines.append("When the device joins, the node's current identity is revoked.")
    if not hub.url:
        lines.append(
            "The hub does not announce its URL ([identity] url in its settings): replace wss://HUB:PORT with it."
        )
    return "\n".join(lines)


def _matching(uses: int, pattern: str) -> str:
    return f"one node whose name matches {pattern}" if uses == 1 else f"up to {uses} nodes whose names match {pattern}"


# ── whom new tokens admit, and which hub they lead to ─────────────────────────────────────────────────────────────────


def admitted(node: str | None, pattern: str | None) -> str:
    if pattern is not None:
        if not _PATTERN.fullmatch(pattern):
            raise click.UsageError(
                f"--pattern: {pattern!r} is not a pattern; write the beginning of the names, then *: 'shop-*'"
            )
        return pattern
    if node is None or not node_names.is_node_name(node):
        raise click.UsageError(f"{node!r} cannot be the name of a Node: {node_names.ALLOWED}")
    return node


def requested_names(file: BinaryIO) -> list[str]:
    """Read all names, so that mistakes are found before the first token is created."""
    place = getattr(file, "name", "<stdin>")
    try:
        text = file.read(NAMES_BYTES_MAX + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{place}: cannot be read as text in UTF-8; write one name per line") from None
    lines = [(at, line.partition("#")[0].strip()) for at, line in enumerate(text.splitlines(), 1)]
    found: dict[str, int] = {}
    for at, name in lines:
        if not name:
            continue
        if not node_names.is_node_name(name):
            raise click.UsageError(f"{place}:{at}: {printable.one_line(name[:80])!r} cannot be the name of a Node")
        if name in found:
            raise click.UsageError(f"{place}:{at}: {name} is there twice, first in line {found[name]}")
        found[name] = at
    if not found:
        raise click.UsageError(f"{place}: holds no names; write one per line")
    if len(found) > NAMES_MAX or len(text) > NAMES_BYTES_MAX:
        raise click.UsageError(f"{place}: more than {NAMES_MAX:,} names; split the file")
    return list(found)


def requested_url(text: str) -> str:
    if not re.fullmatch(r"wss://[^\s/@]+:[0-9]{1,5}/?", text):
        raise click.UsageError(
            f"--hub: {mistakes.shown(text)} is not the URL of a hub; one is like wss://hub.example.com:10000"
        )
    return text


def pins_of(file: Path) -> tuple[str, ...]:
    from fairlead_wire.identity import authority_bundle

    try:
        found = tuple(authority_bundle.by_pin(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--ca-file {file}: {error}") from None
    if len(found) > join_token.PINS_MAX:
        raise click.UsageError(
            f"--ca-file {file}: names {len(found)} authorities; a token has room for {join_token.PINS_MAX}"
        )
    return found


# ── fairlead token list ───────────────────────────────────────────────────────────────────────────────────────────────


@click.command("list", short_help="List tokens, and the nodes they admit and have admitted.")
@targets.options()
@printer.options()
def listed(target: Target, shown: Printer) -> None:
    """List the cluster's join tokens, without their secrets, which the cluster does not have.

    STATE is Good, Used, Expired, or Unseen (no hub has seen it yet). Times are by the API server's clock.

    \b
    fairlead token list -o wide
    """

    async def asked(kube: Kube) -> tuple[list[dict[str, Any]], datetime.datetime, str]:
        found = await collections.items(kube, join_tokens.PATH)
        return found, targets.server_time(kube), targets.clock_note(kube)

    found, now, note = target.ask(asked)
    if note and shown.is_for_people:
        click.echo(note, err=True)
    shown.items(view(now), found, none="no join tokens; `fairlead token create --node NAME` makes one")


def view(now: datetime.datetime) -> TableView:
    """The columns; states and times are as of ``now``."""
    return TableView(
        kind="jointoken.fairlead.dev",
        name=lambda row: str(row["metadata"]["name"]),
        columns=(
            OutputColumn("ID", lambda row: row["metadata"]["name"]),
            OutputColumn("ADMITS", lambda row: row["spec"].get("node") or row["spec"].get("pattern")),
            OutputColumn("USED", _used),
            OutputColumn("STATE", lambda row: _state(row, now), style=lambda row: _style(row, now)),
            OutputColumn("EXPIRES", lambda row: _left(row, now)),
            OutputColumn("AGE", lambda row: quantities.since(row["metadata"].get("creationTimestamp"), now)),
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
    return f"in {quantities.short(left)}" if left > 0 else f"{quantities.since(row['spec'].get('expires'), now)} ago"


def _nodes(row: dict[str, Any]) -> str:
    return ",".join(str(each.get("node")) for each in (row.get("status") or {}).get("uses") or ())


# ── fairlead token revoke ─────────────────────────────────────────────────────────────────────────────────────────────


@click.command("revoke", short_help="Delete tokens, so that they admit no more nodes.")
@click.argument("tokens", nargs=-1, required=True, metavar="ID...", shell_complete=names.join_tokens)
@targets.options()
def revoke(tokens: tuple[str, ...], target: Target) -> None:
    """Delete tokens by id (the ten letters and digits after fl1-), or by their whole text.

    Nodes that joined with a token keep their identity, which `fairlead node revoke` ends. Exit code 1 if a token does
    not exist.

    \b
    fairlead token revoke abcdefghij
    """
    ids = [_id(text) for text in tokens]

    async def act(kube: Kube) -> list[bool]:
        return [await join_tokens.delete(kube, id) for id in ids]

    found = target.ask(act)
    for id, was_there in zip(ids, found, strict=True):
        click.echo(
            f"jointoken/{id} {'revoked' if was_there else 'does not exist: already revoked, or of another cluster'}"
        )
    if not all(found):
        sys.exit(1)


def _id(text: str) -> str:
    id = text.strip().removeprefix(f"{join_token.PREFIX}-").partition("-")[0]
    if not join_token.is_id(id):
        raise click.UsageError("the id of a token is ten letters and digits, as shown by `fairlead token list`")
    return id
