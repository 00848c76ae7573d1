"""`fairlead node`: which certificates of a node are taken. `revoke` refuses those it has, `approve` takes one held."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import api_clock, instructions, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.instructions import APPROVE_FENCE, APPROVE_IDENTITY
from fairlead_cli.cluster.target import OURS, Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import Column, View

if TYPE_CHECKING:
    from fairlead_hub.identity.revocation import Revoked
    from fairlead_hub.io.cluster.kube import Kube

REASON_CHARS_MAX = 256
"""More of it is shown nowhere."""
NOTICED_SECONDS = 5.0
"""How long a hub is waited for that says what it made of it."""
LOOK_SECONDS = 0.2
CONFLICT = 409
VIEW = View(
    kind="edgenode.fairlead.dev",
    name=lambda row: str(row["metadata"]["name"]),
    columns=(Column("NODE", lambda row: row["metadata"]["name"]),),
)
"""For -o name alone."""
FORMS = ("text", "name", "json", "yaml")


def register(root: click.Group) -> None:
    """Add `node` to the root command."""
    root.add_command(node)


@click.group(short_help="Refuse the certificates of a node, or take one that waits.")
def node() -> None:
    """Which certificates of a node are taken.

    \b
    A device was stolen, its disk copied:   fairlead node revoke shop-17 --reason "stolen on Tuesday"
    It gets a successor of the same name:   fairlead token create --node shop-17 --replace
    Its Node was deleted and made again:    fairlead node approve shop-17

    `fairlead nodes -o wide` shows what each certificate is worth and when it ends.
    """


@node.command(short_help="Refuse every certificate the node has; its session is cut.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@click.option("--reason", default="", metavar="TEXT", help="Why; sent to the node and written in its EdgeNode.")
@targets.options()
@printer.options(FORMS)
def revoke(name: str, reason: str, target: Target, shown: Printer) -> None:
    """Refuse every certificate of NODE that was issued until now, for good.

    Its session is cut within two seconds and none opens again: not after restarts, not when the Node is made again,
    and not from a copy of its disk. Messages it has not sent stay on it. What is issued later is taken: `fairlead token
    create --node NODE --replace` gives the name to a new device. It is written in the EdgeNode (spec.revoked), so no
    hub has to answer; one that is away reads it when it starts.

    \b
    fairlead node revoke shop-17
    fairlead node revoke shop-17 --reason "stolen on Tuesday"

    Undone, if it was a mistake: kubectl patch edgenode NODE --type=merge -p '{"spec":{"revoked":null}}'
    """
    from fairlead_hub.identity.revocation import Revoked
    from fairlead_wire.identity import node_names

    if not node_names.is_node_name(name):
        raise click.UsageError(f"{name!r} cannot be the name of a Node: lower-case letters, digits, - and .")
    why = " ".join(reason.split())
    if len(why) > REASON_CHARS_MAX:
        raise click.UsageError(f"--reason: at most {REASON_CHARS_MAX} characters")

    async def act(kube: Kube) -> tuple[dict[str, Any], str]:
        found, clock = await _written(kube, name, lambda before: Revoked(before=before, reason=why))
        found, noticed = await _noticed(kube, name, found)
        return found, f"{_verdict(name, found, noticed)}{clock}"

    found, said = target.ask(act)
    _answer(found, said, shown)


@node.command(short_help="Let a node in that is held, or refused for its fencing number.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@targets.options()
@printer.options(FORMS)
def approve(name: str, target: Target, shown: Printer) -> None:
    """Take the certificate with which NODE comes and is held, or let it give up a fencing number.

    A hub holds a certificate that is not surely the node's: its Node was deleted and made again since, or the node was
    away for long and comes with another store than before, as a copy of its disk would. Approve it if you know why; if
    not, revoke the node. Only what is held now is approved, and nothing that is held later. The node comes again by
    itself within a minute.

    A node that has obeyed a hub with a higher fencing number (EdgeNode: StaleHub) is refused. It follows this hub by
    itself after ten minutes ([link] stale_hub_seconds of its agent); approved, it does so at once. Do so if the Lease
    of the hub was deleted or restored from a backup, or if the number was never true. No other node is touched.

    \b
    fairlead node approve shop-17

    What was revoked is not approved: the node needs a new certificate (fairlead token create --node NODE --replace).
    Exit code 1: the node is revoked, or there is no such node.
    """

    async def act(kube: Kube) -> tuple[dict[str, Any], str]:
        found = await instructions.edge_node(kube, name)
        identity = (found.get("status") or {}).get("identity") or {}
        held, fence = identity.get("held") or "", (found.get("status") or {}).get("obeyedFence")
        if identity.get("state") == "Revoked":
            remedy = f"give it a new certificate: fairlead token create --node {name} --replace"
            raise click.ClickException(f"node/{name} is revoked, and an approval does not lift that; {remedy}")
        wanted = {APPROVE_IDENTITY: held} if held else {}
        if fence is not None:
            wanted[APPROVE_FENCE] = str(fence)
        if not wanted:
            return found, f"node/{name}: no certificate of it is held, and its fencing number is not refused"
        what = " and ".join(filter(None, (held, "" if fence is None else f"it may give up fencing number {fence}")))
        if wanted.items() <= instructions.of(found).items():
            return found, f"node/{name}: approved already ({what}); it is taken when the node comes again"
        await instructions.write(kube, instructions.node_path(name), wanted)
        found = await instructions.edge_node(kube, name)
        return found, f"node/{name}: approved ({what}); the node comes again within a minute"

    found, said = target.ask(act)
    _answer(found, said, shown)


def _answer(found: dict[str, Any], said: str, shown: Printer) -> None:
    """A sentence for people; a document is the EdgeNode, and the sentence stands beside it."""
    if shown.is_for_people:
        click.echo(said)
        return
    shown.one(VIEW, found)
    shown.say(said)


async def _written(kube: Kube, name: str, revoked: Any) -> tuple[dict[str, Any], str]:
    """The EdgeNode with it, made where there is none; and what is worth a word beside it."""
    from fairlead_hub.identity import revocation
    from fairlead_hub.io.cluster.api_error import Refused
    from fairlead_hub.io.cluster.kube import MERGE_PATCH

    while True:
        try:
            found: dict[str, Any] | None = json.loads(await kube.get(instructions.node_path(name)))
        except Refused as error:
            if error.status != instructions.NOT_FOUND:
                raise
            found = None
        wanted: Revoked = revoked(before(found or {}, api_clock.now(kube)))
        # No owner: what is revoked must not go with the Node.
        metadata: dict[str, Any] = {"name": name, "ownerReferences": None}
        if found is not None:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        body: dict[str, Any] = {"metadata": metadata, "spec": revocation.spec(wanted)}
        try:
            if found is None:
                body |= {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": {"name": name}}
                answer = await kube.request("POST", f"{OURS}/edgenodes", body)
            else:
                path = instructions.node_path(name)
                answer = await kube.request("PATCH", path, body, content_type=MERGE_PATCH)
        except Refused as error:
            if error.status == CONFLICT:
                continue  # the hub wrote its status meanwhile
            raise
        made: dict[str, Any] = json.loads(answer)
        notes = [api_clock.note(kube)]
        if found is None:
            notes.append(
                f"there was no EdgeNode {name}, so one was made: if that is no node, kubectl delete enode {name}"
            )
        return made, "".join(f"; {each}" for each in notes if each)


def before(found: dict[str, Any], now: datetime.datetime) -> str:
    """Behind everything that was issued: now by the API server's clock, and behind the newest that a hub has seen.

    A second more than now: a certificate may begin in this very one.
    """
    from fairlead_hub.identity import revocation

    issued = ((found.get("status") or {}).get("identity") or {}).get("issued")
    known = (revocation.read({"revoked": {"before": issued}}), revocation.read(found.get("spec") or {}))
    moments = [each.moment for each in known if each is not None and each.before != revocation.FOR_EVER]
    return f"{max([now.replace(microsecond=0), *moments]) + datetime.timedelta(seconds=1):{revocation.RFC_3339}}"


async def _noticed(kube: Kube, name: str, found: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The EdgeNode when a hub has said in it what it made of that, or as it is when none does."""
    end = time.monotonic() + NOTICED_SECONDS
    while True:
        identity = (found.get("status") or {}).get("identity") or {}
        if identity.get("state") == "Revoked" and not found["status"].get("connected"):
            return found, True
        if time.monotonic() > end:
            return found, False
        await asyncio.sleep(LOOK_SECONDS)
        found = await instructions.edge_node(kube, name)


def _verdict(name: str, found: dict[str, Any], noticed: bool) -> str:
    said = f"node/{name}: its certificates from before {found['spec']['revoked']['before']} are revoked"
    if noticed:
        return f"{said}; it has no session"
    return f"{said}; no hub has said so yet: is one running? fairlead doctor --cluster says so under hub.lease"
