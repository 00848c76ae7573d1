"""`fairlead node`: revokes or approves a node's certificates, and deletes a node."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import collections, instructions, join_tokens, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import quantities
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import APPROVE_FENCE, APPROVE_IDENTITY

if TYPE_CHECKING:
    from fairlead_hub.identity.revocation import Revocation
    from fairlead_hub.io.cluster.kube import Kube

REASON_CHARS_MAX = 256
"""Longest reason that is shown anywhere."""
NOTICED_SECONDS = 5.0
"""How long to wait for a hub to confirm a revocation."""
POLL_SECONDS = 0.2
ENDED_SECONDS = 10.0
"""How long to wait for the hub to record that a session has ended."""
RECORDS_SECONDS = 30.0
"""How long to wait for the hub to delete the records of a deleted node."""
CONFLICT = 409
VIEW = TableView(
    kind="edgenode.fairlead.dev",
    name=lambda row: str(row["metadata"]["name"]),
    columns=(OutputColumn("NODE", lambda row: row["metadata"]["name"]),),
)
"""Used only by -o name."""
RFC_3339 = "%Y-%m-%dT%H:%M:%SZ"
FORMS = ("text", "name", "json", "yaml")


def register(root: click.Group) -> None:
    """Add `node` to the root command."""
    root.add_command(node)


@click.group(short_help="Revoke a node's certificates, approve a held one, or delete the node.")
def node() -> None:
    """Revoke or approve the certificates of a node, or delete the node.

    \b
    It was taken out of service:            fairlead node delete shop-17
    A device was stolen, its disk copied:   fairlead node revoke shop-17 --reason "stolen on Tuesday"
    It was revoked by mistake:              fairlead node unrevoke shop-17
    It gets a successor of the same name:   fairlead token create --node shop-17 --replace
    Its Node was deleted and made again:    fairlead node approve shop-17

    `fairlead nodes -o wide` shows the state and expiry of each certificate.
    """


@node.command(short_help="Refuse all certificates of the node and end its session.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@click.option("--force", is_flag=True, help="Revoke the name even if nothing in the cluster has it.")
@click.option("--reason", default="", metavar="TEXT", help="Reason, sent to the node and written to its EdgeNode.")
@targets.options()
@printer.options(FORMS)
def revoke(name: str, reason: str, force: bool, target: Target, shown: Printer) -> None:
    """Permanently revoke every certificate that NODE has been issued so far.

    Its session is closed within two seconds and cannot be opened again: not after restarts, not when the Node is
    recreated, and not from a copy of its disk. Messages that it has not sent stay on it. Certificates issued later are
    valid: `fairlead token create --node NODE --replace` gives the name to a new device. The revocation is recorded in
    the EdgeNode (spec.revoked), so it also takes effect if no hub is running at the moment.

    \b
    fairlead node revoke shop-17
    fairlead node revoke shop-17 --reason "stolen on Tuesday"

    To undo it: fairlead node unrevoke NODE.
    Exit code 1: nothing in the cluster has this name. With --force the name is revoked anyway: if the Node was deleted
    with its EdgeNode and is created again, its certificate is refused.
    """
    from fairlead_hub.identity.revocation import Revocation

    _refuse_no_name(name)
    why = " ".join(reason.split())
    if len(why) > REASON_CHARS_MAX:
        raise click.UsageError(f"--reason: at most {REASON_CHARS_MAX} characters")

    async def act(kube: Kube) -> tuple[dict[str, Any], str]:
        if not force and await _found(kube, instructions.node_path(name)) is None:
            leaving = await _Leaving.of(kube, name)
            if leaving.is_nothing:
                raise click.ClickException(f"{_not_found_text(name)}; if it is to be revoked all the same, use --force")
        found, clock = await _written(kube, name, lambda before: Revocation(before=before, reason=why))
        found, noticed = await _noticed(kube, name, found)
        return found, f"{_verdict(name, found, noticed)}{clock}"

    found, said = target.ask(act)
    _answer(found, said, shown)


@node.command(short_help="Undo a revocation: accept the certificates of the node again.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@click.option("--force", is_flag=True, help="Even if another device replaced the revoked one, which can then return.")
@targets.options()
@printer.options(FORMS)
def unrevoke(name: str, force: bool, target: Target, shown: Printer) -> None:
    """Undo the revocation of NODE: every certificate that has not expired is accepted again.

    Only do this if the revocation was a mistake and the device's disk cannot have been copied: a copy is accepted
    again, too. The node reconnects within ten minutes, or immediately if its agent is restarted.

    \b
    fairlead node unrevoke shop-17

    If another device replaced the node (token create --replace), the revocation keeps the old device out. Lifting it
    needs --force: the old device can connect again, in place of the new one.

    Exit code 1: no EdgeNode has this name, or the node was replaced.
    """

    async def act(kube: Kube) -> tuple[dict[str, Any], str]:
        from fairlead_hub.identity import revocation
        from fairlead_hub.io.cluster.kube import MERGE_PATCH

        found = await instructions.edge_node(kube, name)
        if (found.get("spec") or {}).get("revoked") is None:
            return found, f"node/{name} is not revoked"
        revoked = revocation.read(found["spec"])
        if revoked is not None and revoked.replaced_by and not force:
            raise click.ClickException(
                f"node/{name} was replaced by the device that joined with token {revoked.replaced_by}: lifting the"
                " revocation lets the old device, or a copy of its disk, connect again in place of the new one; if that"
                " is intended, use --force. To give the name to a new device: fairlead token create"
                f" --node {name} --replace"
            )
        path, body = instructions.node_path(name), {"spec": {"revoked": None}}
        lifted: dict[str, Any] = json.loads(await kube.request("PATCH", path, body, content_type=MERGE_PATCH))
        said = f"node/{name}: its certificates are accepted again; it comes back within ten minutes, or at once when"
        return lifted, f"{said} you restart its agent: sudo systemctl restart fairlead-edge"

    found, said = target.ask(act)
    _answer(found, said, shown)


@node.command(short_help="Admit a node that is held back, or refused for its fencing number.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@targets.options()
@printer.options(FORMS)
def approve(name: str, target: Target, shown: Printer) -> None:
    """Accept the held certificate of NODE, or allow it to reset its fencing number.

    A hub holds a certificate if it may not belong to the node: because its Node was deleted and recreated, or because
    the node was away for a long time and returns with another store, as a copy of its disk would. Approve it if you
    know the cause; otherwise revoke the node. Only what is held now is approved. The node reconnects within a minute.

    A node that has obeyed a hub with a higher fencing number (EdgeNode: StaleHub) is refused. It accepts this hub by
    itself after ten minutes ([link] stale_hub_seconds of its agent), or at once if approved. Approve it if the hub's
    Lease was deleted or restored from a backup, or if the number was wrong. Other nodes are not affected.

    \b
    fairlead node approve shop-17

    A revoked certificate cannot be approved: the node needs a new one (fairlead token create --node NODE --replace).
    Exit code 1: the node is revoked, or there is no such node.
    """

    async def act(kube: Kube) -> tuple[dict[str, Any], str]:
        found = await instructions.edge_node(kube, name)
        identity = (found.get("status") or {}).get("identity") or {}
        held, fence = identity.get("held") or "", (found.get("status") or {}).get("obeyedFence")
        if identity.get("state") == "Revoked":
            remedy = f"give it a new certificate: fairlead token create --node {name} --replace"
            raise click.ClickException(f"node/{name} is revoked, which an approval cannot undo; {remedy}")
        wanted = {APPROVE_IDENTITY: held} if held else {}
        if fence is not None:
            wanted[APPROVE_FENCE] = str(fence)
        if not wanted:
            return found, f"node/{name}: nothing to approve: no certificate is held and no fencing number refused"
        what = " and ".join(filter(None, (held, "" if fence is None else f"it may reset fencing number {fence}")))
        if wanted.items() <= instructions.of(found).items():
            return found, f"node/{name}: already approved ({what}); it takes effect when the node reconnects"
        await instructions.write(kube, instructions.node_path(name), wanted)
        found = await instructions.edge_node(kube, name)
        return found, f"node/{name}: approved ({what}); the node reconnects within a minute"

    found, said = target.ask(act)
    _answer(found, said, shown)


@node.command(short_help="Remove a node that was taken out of service from the cluster.")
@click.argument("name", metavar="NODE", shell_complete=names.nodes)
@click.option("--force", is_flag=True, help="Even if it is connected, or holds messages that were not delivered.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@targets.options()
def delete(name: str, force: bool, dry_run: bool, target: Target) -> None:
    """Revoke the certificates of NODE and delete its tokens, its Node, and the records of its objects.

    First take the device out of service while it is connected (fairlead edge leave), so that it delivers the messages
    it has accepted. The EdgeNode remains until the revoked certificates have expired, so that no copy of the disk is
    accepted if a Node of this name is created again. After an interruption, run the same command again.

    \b
    fairlead node delete shop-17
    fairlead node delete shop-17 --dry-run
    fairlead node delete shop-17 --force        # the device and its undelivered messages are lost

    Exit codes: 0 deleted; 1 refused, and why, or nothing in the cluster has this name.
    """
    _refuse_no_name(name)

    async def act(kube: Kube) -> None:
        leaving = await _Leaving.of(kube, name)
        if leaving.is_nothing:
            raise click.ClickException(_not_found_text(name))
        end = time.monotonic() + ENDED_SECONDS
        while (why := leaving.why_not()) and not force:
            if not leaving.is_connected or time.monotonic() > end:
                raise click.ClickException(why)
            await asyncio.sleep(POLL_SECONDS)
            leaving = await _Leaving.of(kube, name)
        for line in leaving.lines():
            click.echo(f"{'would be ' if dry_run else ''}{line}")
        if not dry_run:
            await leaving.delete(kube)

    target.ask(act)


class _Leaving:
    """The objects of one node in the cluster."""

    def __init__(
        self,
        name: str,
        node: dict[str, Any] | None,
        edge_node: dict[str, Any] | None,
        tokens: list[str],
        records: int,
        now: str,
    ) -> None:
        self.name = name
        self.node = node
        self.edge_node = edge_node
        self.tokens = tokens
        self.records = records
        self._status: dict[str, Any] = (edge_node or {}).get("status") or {}
        identity = self._status.get("identity") or {}
        self.is_connected = bool(self._status.get("connected"))
        self._expires: str = identity.get("expires") or ""
        self._is_revoked = identity.get("state") == "Revoked"
        self._can_come_back = bool(identity.get("issued")) and self._expires > now

    @classmethod
    async def of(cls, kube: Kube, name: str) -> _Leaving:
        tokens = [
            str(each["metadata"]["name"])
            for each in await collections.items(kube, join_tokens.PATH)
            if each.get("spec", {}).get("node") == name
        ]
        node = await _found(kube, _node_path(name))
        edge_node = await _found(kube, instructions.node_path(name))
        now = f"{targets.server_time(kube):{RFC_3339}}"
        return cls(name, node, edge_node, tokens, await _records(kube, name), now)

    @property
    def is_nothing(self) -> bool:
        """Nothing in the cluster has this name."""
        return not (self.node or self.edge_node or self.tokens or self.records)

    def why_not(self) -> str:
        """Why it cannot be deleted without --force; "" if it can."""
        if self.is_connected:
            return (
                f"node/{self.name} is connected: take it out of service first (on the device: fairlead edge leave),"
                " or use --force, which ends its session"
            )
        waiting = sum(each.get("length") or 0 for each in self._status.get("queues") or ())
        if waiting and self.node is not None:
            return (
                f"node/{self.name} had {quantities.of(waiting, 'message')} to deliver when the hub last heard from it:"
                " let it connect and leave (on the device: fairlead edge leave), or use --force to give up the messages"
            )
        return ""

    def lines(self) -> list[str]:
        """The steps, in order."""
        revokes = self._can_come_back and not self._is_revoked
        lines = [f"revoked    the certificates of {self.name}"] if revokes else []
        lines += [f"deleted    jointoken/{id}" for id in self.tokens]
        if self.node is not None:
            lines.append(f"deleted    node/{self.name}")
        if self.records:
            lines.append(f"deleted    {quantities.of(self.records, 'record')} of its objects (by the hub)")
        if self.edge_node is not None and not self._can_come_back:
            lines.append(f"deleted    edgenode/{self.name}")
        return lines

    async def delete(self, kube: Kube) -> None:
        """Delete everything, in an order in which no crash makes a certificate valid again."""
        if self._can_come_back and not self._is_revoked:
            from fairlead_hub.identity.revocation import DELETED, Revocation

            found, _ = await _written(kube, self.name, lambda before: Revocation(before=before, reason=DELETED))
            await _noticed(kube, self.name, found)
        for id in self.tokens:
            await join_tokens.delete(kube, id)
        if self.node is not None:
            await _delete(kube, _node_path(self.name))
        left = await _until(lambda: _records(kube, self.name), RECORDS_SECONDS)
        if left:
            click.echo(f"remaining  {quantities.of(left, 'record')}: the hub deletes them when it is running", err=True)
        if not self._can_come_back:
            await _delete(kube, instructions.node_path(self.name))
            return
        click.echo(
            f"kept       edgenode/{self.name}: it records the revocation until the last certificate expires"
            f" ({self._expires}); run the same command then to delete it"
        )


def _refuse_no_name(name: str) -> None:
    from fairlead_wire.identity import node_names

    if not node_names.is_node_name(name):
        raise click.UsageError(f"{name!r} cannot be the name of a Node: {node_names.ALLOWED}")


def _not_found_text(name: str) -> str:
    return f"there is no Node, EdgeNode, JoinToken or record named {name}; fairlead nodes lists the nodes"


def _node_path(name: str) -> str:
    return f"api/v1/nodes/{urllib.parse.quote(name, safe='')}"


async def _found(kube: Kube, path: str) -> dict[str, Any] | None:
    from fairlead_hub.io.cluster.api_error import ApiRefused

    try:
        found: dict[str, Any] = json.loads(await kube.get(path))
    except ApiRefused as error:
        if error.status != instructions.NOT_FOUND:
            raise
        return None
    return found


async def _delete(kube: Kube, path: str) -> None:
    """Delete an object; succeeds if it does not exist."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    try:
        await kube.request("DELETE", path)
    except ApiRefused as error:
        if error.status != instructions.NOT_FOUND:
            raise


async def _records(kube: Kube, name: str) -> int:
    """The number of records of the node's objects."""
    from fairlead_hub.status import object_sync

    label = f"{object_sync.NODE_LABEL}={object_sync.shortened(name, object_sync.LABEL_CHARS_MAX)}"
    found = [
        each
        for path in (f"{api_group.ROOT}/objectsyncs", f"{api_group.ROOT}/clusterobjectsyncs")
        for each in await collections.items(kube, path, labelSelector=label)
    ]
    return sum(each["spec"]["nodeName"] == name for each in found)


async def _until(ask: Callable[[], Awaitable[int]], seconds: float) -> int:
    """Ask until the answer is 0 or the time is over; returns the last answer."""
    end = time.monotonic() + seconds
    while True:
        found = await ask()
        if not found or time.monotonic() > end:
            return found
        await asyncio.sleep(POLL_SECONDS)


def _answer(found: dict[str, Any], said: str, shown: Printer) -> None:
    """Print the sentence for people; otherwise the EdgeNode, and the sentence on standard error."""
    if shown.is_for_people:
        click.echo(said)
        return
    shown.one(VIEW, found)
    shown.say(said)


async def _written(kube: Kube, name: str, revoked: Any) -> tuple[dict[str, Any], str]:
    """Write the revocation, creating the EdgeNode if needed; returns the EdgeNode, and notes for people."""
    from fairlead_hub.identity import revocation
    from fairlead_hub.io.cluster.api_error import ApiRefused
    from fairlead_hub.io.cluster.kube import MERGE_PATCH

    while True:
        try:
            found: dict[str, Any] | None = json.loads(await kube.get(instructions.node_path(name)))
        except ApiRefused as error:
            if error.status != instructions.NOT_FOUND:
                raise
            found = None
        wanted: Revocation = revoked(before(found or {}, targets.server_time(kube)))
        known = revocation.read((found or {}).get("spec") or {})
        if known is not None and known.replaced_by:
            reason = revocation.replaced(known.replaced_by, wanted.reason)
            wanted = revocation.Revocation(before=wanted.before, reason=reason)
        # No owner: the revocation must not be deleted with the Node.
        metadata: dict[str, Any] = {"name": name, "ownerReferences": None}
        if found is not None:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        body: dict[str, Any] = {"metadata": metadata, "spec": revocation.spec(wanted)}
        try:
            if found is None:
                body |= {"apiVersion": api_group.API_VERSION, "kind": "EdgeNode", "metadata": {"name": name}}
                answer = await kube.request("POST", f"{api_group.ROOT}/edgenodes", body)
            else:
                path = instructions.node_path(name)
                answer = await kube.request("PATCH", path, body, content_type=MERGE_PATCH)
        except ApiRefused as error:
            if error.status == CONFLICT:
                continue  # the hub wrote the status concurrently
            raise
        made: dict[str, Any] = json.loads(answer)
        notes = [targets.clock_note(kube)]
        if found is None:
            notes.append(
                f"there was no EdgeNode {name}, so one was created; if no such node exists: kubectl delete enode {name}"
            )
        return made, "".join(f"; {each}" for each in notes if each)


def before(found: dict[str, Any], now: datetime.datetime) -> str:
    """A time after everything issued so far: by the API server's clock, and by the newest certificate a hub has seen.

    It is a second later than now, because a certificate may begin in the current second.
    """
    from fairlead_hub.identity import revocation

    issued = ((found.get("status") or {}).get("identity") or {}).get("issued")
    known = (revocation.read({"revoked": {"before": issued}}), revocation.read(found.get("spec") or {}))
    moments = [each.moment for each in known if each is not None and each.before != revocation.FOR_EVER]
    return f"{max([now.replace(microsecond=0), *moments]) + datetime.timedelta(seconds=1):{revocation.RFC_3339}}"


async def _noticed(kube: Kube, name: str, found: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Wait for a hub to confirm the revocation; returns the EdgeNode, and whether one did."""
    end = time.monotonic() + NOTICED_SECONDS
    while True:
        identity = (found.get("status") or {}).get("identity") or {}
        if identity.get("state") == "Revoked" and not found["status"].get("connected"):
            return found, True
        if time.monotonic() > end:
            return found, False
        await asyncio.sleep(POLL_SECONDS)
        found = await instructions.edge_node(kube, name)


def _verdict(name: str, found: dict[str, Any], noticed: bool) -> str:
    said = f"node/{name}: its certificates from before {found['spec']['revoked']['before']} are revoked"
    if noticed:
        return f"{said}, and its session has ended"
    return f"{said}; no hub has confirmed it yet: check with fairlead doctor --cluster (hub.lease) that one is running"
