"""`fairlead token create`: one token, or one for each name of a file."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fairlead_cli.cluster import api_clock, join_tokens, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.join_tokens import HubAddresses, Made, TokenOptions
from fairlead_cli.cluster.target import Target
from fairlead_cli.commands.cluster.token import listing, requested
from fairlead_cli.output import forms, printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.parameters.lifetime_option import Lifetime
from fairlead_cli.text import ages
from fairlead_wire.identity import join_token

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

TTL_MIN, TTL_MAX = datetime.timedelta(minutes=1), datetime.timedelta(days=30)
USES_MAX = 1000
SHOWN_MAX = 10
THE_NODE = "\0"
"""Value of --replace without a name."""
HUB_PLACEHOLDER = "wss://HUB:PORT"


@click.command("create", short_help="Make a token, or one for each name of a file.")
@click.option("--node", metavar="NAME", shell_complete=names.nodes, help="The node it admits.")
@click.option("--pattern", metavar="'shop-*'", help="Names it admits: their beginning, then *.")
@click.option(
    "--file",
    "names_file",
    type=click.File("rb"),
    metavar="FILE|-",
    help="A token for each line, a node's name.",
)
@click.option(
    "--uses", type=click.IntRange(1, USES_MAX), default=1, show_default=True, help="How many nodes; with --pattern."
)
@click.option(
    "--ttl",
    type=Lifetime(TTL_MIN, TTL_MAX),
    default="1h",
    show_default=True,
    help="How long it is good: 30m, 12h, 30d.",
)
@click.option(
    "--replace",
    is_flag=False,
    flag_value=THE_NODE,
    metavar="[NAME]",
    shell_complete=names.nodes,
    help="For a new device in place of one that is lost: the identity the node has is revoked when it joins.",
)
@click.option(
    "--create-node", is_flag=True, help="Also make the Node, with the label of edge nodes, where it is missing."
)
@click.option("--hub", metavar="wss://HUB:PORT", help="Where devices dial; default: what the hub says.")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Authority of the hub's certificate; default: what the hub says.",
)
@targets.options()
@printer.options(forms.DOCUMENTS)
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
    """Print a token, and the line to paste on the device.

    With --file only tokens are printed, one a line, in the order of the names; -o json names them.

    \b
    fairlead token create --node shop-17
    fairlead token create --pattern 'shop-*' --uses 50 --ttl 7d
    fairlead token create --file names.txt --ttl 30d > tokens.txt
    fairlead token create --replace shop-17
    """
    if replace not in (None, THE_NODE):
        if node not in (None, replace):
            raise click.UsageError(f"--replace {replace} and --node {node} are two nodes; name one")
        node = replace
    if [node, pattern, names_file].count(None) != 2:
        raise click.UsageError("give one of --node NAME, --pattern 'shop-*' and --file FILE")
    if pattern is None and uses != 1:
        raise click.UsageError("--uses is for --pattern: a node joins once")
    if pattern is not None and replace is not None:
        raise click.UsageError("--replace needs the name of the node (--node NAME), not a pattern")
    if pattern is not None and create_node:
        raise click.UsageError("--create-node needs names (--node NAME, --file FILE), not a pattern")
    whom = requested.names(names_file) if names_file is not None else [requested.admitted(node, pattern)]
    known = HubAddresses(url=requested.url(hub) if hub else "", pins=requested.pins_of(ca_file) if ca_file else ())
    nodes = [] if pattern is not None else whom

    async def make(kube: Kube) -> tuple[list[Made], HubAddresses, list[tuple[str, Exception]], str]:
        ends = await api_clock.asked(kube) + ttl
        made = await _make(kube, TokenOptions(expires=ends, uses=uses, replace=replace is not None), whom, known, shown)
        return *made, api_clock.note(kube)

    made, found, failed, clock = target.ask(make)
    documents = [_document(each, found) for each in made]
    if not shown.is_for_people:
        shown.items(listing.view(ages.utc()), documents) if names_file is not None else shown.document(documents[0])
    elif names_file is not None:
        click.echo("".join(f"{each['token']}\n" for each in documents), nl=False)
    else:
        [document] = documents
        click.echo(f"{document['token']}\n{document['command']}")
        shown.say(_explained(document, found, ttl))
    if clock:
        shown.say(clock)
    try:
        # After the tokens: who may make them need not be allowed to see Nodes, and a token is shown only once.
        target.ask(lambda kube: _look_at_nodes(kube, nodes, create_node, shown))
    except click.ClickException as unseen:
        if create_node:
            raise
        shown.say(f"whether the Node is there was not found out: {unseen.format_message()}")
    if failed:
        for name, error in failed[:SHOWN_MAX]:
            shown.say(f"{name}: {error}")
        raise click.ClickException(f"{len(failed)} of {len(whom)} tokens could not be made; give their names again")


async def _make(
    kube: Kube, wanted: TokenOptions, whom: Sequence[str], known: HubAddresses, shown: Printer
) -> tuple[list[Made], HubAddresses, list[tuple[str, Exception]]]:
    """The first one alone: it shows whether this may be done at all, and lets a hub say who it is."""
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


async def _look_at_nodes(kube: Kube, nodes: Sequence[str], create_node: bool, shown: Printer) -> None:
    """A device can join before its Node is there, but gets no session."""
    if not nodes:
        return
    missing, plain = await join_tokens.strangers(kube, nodes)
    if missing and create_node:
        await join_tokens.create_nodes(kube, missing)
        shown.say(f"made the Node{'s' if len(missing) > 1 else ''} {_some(missing)}")
    elif missing:
        shown.say(f"there is no Node {_some(missing)} yet: the device joins, and waits for it; --create-node makes it")
    if plain:
        label = f"kubectl label node {plain[0]} {join_tokens.EDGE_LABEL}="
        shown.say(f"Node {_some(plain)} has not the label of edge nodes, so the hub serves it not: {label}")


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
    whom = f"node {spec['node']}" if "node" in spec else f"{spec['uses']} nodes named like {spec['pattern']}"
    lines = [
        f"The token admits {whom}, until {spec['expires']}; it is shown only now. Paste the second line on the device."
    ]
    if spec["replace"]:
        lines.append("When it joins, the identity that the node has now is revoked.")
    if not hub.url:
        lines.append(
            "The hub does not say its URL ([identity] url of its settings): put it in place of wss://HUB:PORT."
        )
    return "\n".join(lines)
