"""`fairlead diff`: compares what a node holds with the cluster."""

from __future__ import annotations

import base64
import binascii
import copy
import difflib
import hashlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.cluster import collections, delivered, instructions, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer, tables
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.text import quantities, yaml_text
from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation with the whole object, including a Secret's values."""
OWN: Final = ("resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink")
"""Metadata that always differs between the two sides."""
HIDDEN_CHARS: Final = 12
NOT_FOUND = 404
WITHOUT_EDGE = (
    "only versions were compared, as recorded by the hub; compare contents with --edge URL (an agent's http_listen)"
)


def register(root: click.Group) -> None:
    """Add `diff` to the root command."""
    root.add_command(diff)


@click.command(short_help="Show the differences between a node and the cluster.")
@click.argument("what", metavar="NODE|KIND/NAME", shell_complete=names.nodes_and_objects)
@click.option("--node", help="With KIND/NAME: only this node.")
@click.option("--edge", "url", metavar="URL", help="Read contents from this agent, for example through an SSH tunnel.")
@edge_client.token_option
@targets.options(namespace=True)
@printer.options(("text",))
def diff(what: str, node: str | None, url: str | None, token_file: Path | None, target: Target, shown: Printer) -> None:
    """Compare the cluster (---) with an edge node (+++).

    With --edge, contents are compared and shown as a unified diff; the values of Secrets are compared but never shown.
    Without it, only versions are known: objects whose versions differ are listed with both.

    \b
    fairlead diff edge-1
    fairlead diff edge-1 --edge http://127.0.0.1:10550 --token-file token
    fairlead diff configmap/prices -n shop --node edge-1

    Exit codes: 0 no difference; 1 a difference, or an error.
    """
    if url is not None and "/" in what and node is None:
        raise click.UsageError("--edge reads from one agent: name its node with --node")
    records = target.ask(lambda kube: _records(kube, what, node, target))
    differences = 0
    for lines in _with_contents(records, url, token_file, target) if url is not None else _versions(records):
        differences += 1
        for line in lines:
            click.echo(shown.paint(line, _style(line)), color=shown.is_colored)
    if url is None and differences:
        shown.say(WITHOUT_EDGE)
    if not differences:
        shown.say(f"no difference in {quantities.of(len(records), 'object')}")
    sys.exit(1 if differences else 0)


async def _records(kube: Kube, what: str, node: str | None, target: Target) -> list[dict[str, Any]]:
    """ObjectSyncs of the node, or of the object."""
    if "/" not in what:
        await instructions.edge_node(kube, what)
        query = {"fieldSelector": f"spec.nodeName={what}"}
        listed = [
            await collections.items(kube, f"{api_group.ROOT}/{name}", **query)
            for name in ("objectsyncs", "clusterobjectsyncs")
        ]
        return sorted((each for part in listed for each in part), key=_name)
    kind, name = delivered.split(what)
    found = await delivered.find(kube, kind, target.namespace, name)
    place = f"namespaces/{target.namespace}/objectsyncs" if found.kind.namespaced else "clusterobjectsyncs"
    query = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
    records = [
        each
        for each in await collections.items(kube, f"{api_group.ROOT}/{place}", **query)
        if each["spec"]["objectName"] == name and each["spec"]["objectKind"] == found.kind.kind
    ]
    if not records:
        where = f"node {node}" if node else "any node"
        text = f"no ObjectSync of {what} exists for {where}; fairlead explain {what} --node NODE shows why"
        raise click.ClickException(text)
    return sorted(records, key=_name)


def _name(record: dict[str, Any]) -> tuple[str, str, str, str]:
    spec = record["spec"]
    return (record["metadata"].get("namespace", ""), spec["objectKind"], spec["objectName"], spec["nodeName"])


def _versions(records: list[dict[str, Any]]) -> Iterator[list[str]]:
    for record in records:
        status = record.get("status") or {}
        if status.get("state") == "Synced":
            continue
        wanted, held = status.get("wantedResourceVersion") or "", status.get("objectResourceVersion") or ""
        yield [
            f"--- cluster {_path(record)} {f'version {wanted}' if wanted else 'is not wanted'}",
            f"+++ {record['spec']['nodeName']} {_path(record)} {f'version {held}' if held else 'is not held'}",
            f"@@ {status.get('state', 'Unknown')}: {status.get('reason') or 'no reason given'} @@",
        ]


def _path(record: dict[str, Any]) -> str:
    namespace = record["metadata"].get("namespace", "")
    return "/".join(filter(None, (namespace, record["spec"]["objectKind"].lower(), record["spec"]["objectName"])))


def _with_contents(
    records: list[dict[str, Any]], url: str, token_file: Path | None, target: Target
) -> Iterator[list[str]]:
    """The differing lines of each object that differs."""
    pairs = target.ask(lambda kube: _of_cluster(kube, records))
    key = secrets.token_bytes(32)
    for record, path, wanted in pairs:
        held = edge_client.get(url, token_file, path)
        names = (f"cluster {_path(record)}", f"{record['spec']['nodeName']} {_path(record)}")
        if lines := unified(wanted, held, names, key):
            yield lines


async def _of_cluster(
    kube: Kube, records: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], str, dict[str, Any] | None]]:
    """(record, path, content as delivered or None) of each; the same paths lead to the copies at the edge."""
    from fairlead_hub.io.cluster.api_error import ApiRefused
    from fairlead_hub.io.cluster.kind_watch import discover

    known: dict[tuple[str, str], Any] = {}
    found: list[tuple[dict[str, Any], str, dict[str, Any] | None]] = []
    with ProgressBar("reading the cluster", len(records)) as progress:
        for record in records:
            spec = record["spec"]
            key = (spec["objectAPIVersion"], spec["objectKind"])
            if key not in known:
                known[key] = await discover(kube, *key)
            path = delivered.path_of(known[key], record["metadata"].get("namespace", ""), spec["objectName"])
            try:
                raw = await kube.get(path)
            except ApiRefused as error:
                if error.status != NOT_FOUND:
                    raise
                found.append((record, path, None))
            else:
                found.append((record, path, delivered.content(delivered.Delivered(known[key], path, {}, raw))))
            progress.add(1)
    return found


def _style(line: str) -> tables.Style:
    if line.startswith(("---", "+++")):
        return ""
    return "bad" if line.startswith("-") else "good" if line.startswith("+") else ""


# ── differences as text ───────────────────────────────────────────────────────────────────────────────────────────────


def unified(
    cluster: dict[str, Any] | None, edge: dict[str, Any] | None, names: tuple[str, str], key: bytes
) -> list[str]:
    """A unified diff from the cluster to the edge; empty if they are equal.

    ``key`` keys the digests of Secrets' values: chosen for each comparison, it keeps the values from being guessed.
    """
    before, after = (
        [] if each is None else yaml_text.text_of(comparable(each, key)).splitlines() for each in (cluster, edge)
    )
    return list(difflib.unified_diff(before, after, *names, lineterm=""))


def comparable(item: dict[str, Any], key: bytes) -> dict[str, Any]:
    """The object without fields that always differ, with sorted keys, and with digests for Secrets' values."""
    found: dict[str, Any] = copy.deepcopy(item)
    metadata = found.get("metadata")
    if isinstance(metadata, dict):
        for own in OWN:
            metadata.pop(own, None)
        noted = metadata.pop("annotations", None) or {}
        kept = {name: value for name, value in noted.items() if not _is_noted(name)}
        if kept:
            metadata["annotations"] = kept
    found.pop("status", None)
    if found.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(found.get(part), dict):
                found[part] = {name: _hidden(value, key) for name, value in found[part].items()}
    ordered = _ordered(found)
    assert isinstance(ordered, dict)
    return ordered


def _is_noted(name: str) -> bool:
    """True for annotations of people, the agent (age, version) or kubectl, which are not content."""
    return name.startswith("fairlead.dev/") or name == APPLIED


def _hidden(value: Any, key: bytes) -> str:
    text = str(value)
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        content = text.encode()
    digest = hashlib.blake2b(content, key=key).hexdigest()[:HIDDEN_CHARS]
    return f"(hidden: {len(content)} bytes, digest {digest})"


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
