"""Finds a delivered object by KIND/NAME, as kubectl accepts it; the kind must be in a SyncRule."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from fairlead_cli.cluster import collections
from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.cluster.content import ServedKind
    from fairlead_hub.io.cluster.kube import Kube

NOT_FOUND = 404


class Delivered(NamedTuple):
    """An object of a delivered kind; ``raw`` is the API server's JSON."""

    kind: ServedKind
    path: str
    item: dict[str, Any]
    raw: bytes


def split(text: str) -> tuple[str, str]:
    """Split KIND/NAME.  Raises ``click.UsageError`` for anything else."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f"{text}: must be KIND/NAME, for example configmap/prices")
    return kind, name


async def kinds(kube: Kube) -> list[ServedKind]:
    """All kinds that are delivered and that the API server serves, EdgeRoutes first."""
    from fairlead_hub.io.cluster.api_error import ApiRefused
    from fairlead_hub.io.cluster.kind_watch import discover

    named = {(api_group.API_VERSION, "EdgeRoutes"): None}
    for rule in await collections.items(kube, f"{api_group.ROOT}/syncrules"):
        for entry in (rule.get("spec") or {}).get("resources") or ():
            named[(str(entry.get("apiVersion")), str(entry.get("kind")))] = None
    found: list[ServedKind] = []
    for api_version, kind in named:
        try:
            found.append(await discover(kube, api_version, kind))
        except ApiRefused as error:
            if error.status != NOT_FOUND:
                raise
    return found


async def find(kube: Kube, asked: str, namespace: str, name: str) -> Delivered:
    """Find the object.  Raises ``click.ClickException`` if there is no such kind or object."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    known = await kinds(kube)
    kind = next((each for each in known if each.is_called(asked)), None)
    if kind is None:
        shown = ", ".join(sorted({each.kind for each in known}))
        raise click.ClickException(f"no SyncRule delivers the kind {asked}; delivered kinds: {shown}")
    path = path_of(kind, namespace, name)
    try:
        raw = await kube.get(path)
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise
        where = f" in namespace {namespace}; name another with -n" if kind.namespaced else ""
        raise click.ClickException(f"there is no {kind.kind} {name}{where}") from None
    return Delivered(kind, path, json.loads(raw), raw)


def path_of(kind: ServedKind, namespace: str, name: str) -> str:
    """The object's path at the API server."""
    base = kind.root.removesuffix(kind.plural)
    place = f"{base}namespaces/{namespace}/{kind.plural}" if kind.namespaced else kind.root
    return f"{place}/{urllib.parse.quote(name, safe='')}"


def content(found: Delivered) -> dict[str, Any]:
    """The content that nodes receive, without status, managed fields and the like.  Raises ``click.ClickException``."""
    from fairlead_hub.cluster import content as contents

    try:
        live = contents.build(msgspec.Raw(found.raw), found.kind)
        return contents.unpacked(live)
    except contents.Unusable as error:
        raise click.ClickException(f"{found.path}: it cannot be delivered to any node: {error}") from None
