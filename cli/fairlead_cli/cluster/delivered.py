"""A delivered object by the name people give it: KIND/NAME, as kubectl takes it, of a kind that SyncRules name."""

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
    """``raw`` as the API server has it."""

    kind: ServedKind
    path: str
    item: dict[str, Any]
    raw: bytes


def split(text: str) -> tuple[str, str]:
    """KIND and NAME.  Raises ``click.UsageError`` for what is none."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f"{text}: must be KIND/NAME, for example configmap/prices")
    return kind, name


async def kinds(kube: Kube) -> list[ServedKind]:
    """Every kind that is delivered and served, EdgeRoutes first."""
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
    """Raises ``click.ClickException`` when there is no such kind or no such object."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    known = await kinds(kube)
    kind = next((each for each in known if each.is_called(asked)), None)
    if kind is None:
        shown = ", ".join(sorted({each.kind for each in known}))
        raise click.ClickException(f"no SyncRule names the kind {asked}; delivered are {shown}")
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
    """Where the API server has it."""
    base = kind.root.removesuffix(kind.plural)
    place = f"{base}namespaces/{namespace}/{kind.plural}" if kind.namespaced else kind.root
    return f"{place}/{urllib.parse.quote(name, safe='')}"


def content(found: Delivered) -> dict[str, Any]:
    """What nodes are given of it: without status, managed fields and the like.  Raises ``click.ClickException``."""
    from fairlead_hub.cluster import content as contents

    try:
        live = contents.build(msgspec.Raw(found.raw), found.kind)
        return contents.unpacked(live)
    except contents.Unusable as error:
        raise click.ClickException(f"{found.path}: no node can be given it: {error}") from None
