"""Creates, finds and deletes join tokens in the cluster, which stores only the hash of a secret.

create(kube, wanted, whom) ─▶ Made (object and text)      a hub fills in status: the pins of its authorities, its URL
introduced(kube, id)       ─▶ pins and URL, once a hub has seen the token
"""

from __future__ import annotations

import asyncio
import datetime
import json
import secrets
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import collections
from fairlead_wire.identity import join_token
from fairlead_wire.identity.join_token import JoinToken
from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

PATH = f"{api_group.ROOT}/jointokens"
EDGE_LABEL = api_group.EDGE_LABEL
HUB_SECONDS = 10.0
"""How long to wait for a hub to see a new token."""
POLL_SECONDS = 0.1
AT_ONCE = 32
"""Concurrent requests."""
NOT_FOUND, CONFLICT = 404, 409
RFC_3339 = "%Y-%m-%dT%H:%M:%SZ"

random_bytes: Callable[[int], bytes] = secrets.token_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """Options for all tokens of one command."""

    expires: datetime.datetime
    uses: int = 1
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAddresses:
    """The URL that devices dial, and the pins of the hub's authorities."""

    url: str = ""
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A created token.  ``whom`` is a node or a pattern; ``token`` has no pins yet, which a hub provides."""

    whom: str
    token: JoinToken
    document: dict[str, Any]


async def create(kube: Kube, wanted: TokenOptions, whom: str) -> Made:
    """Create a token; ``whom`` is a node, or a pattern ending in *.  Raises ``ApiRefused`` or ``ApiUnavailable``."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    token = join_token.make(random_bytes, ())
    document = {
        "apiVersion": api_group.API_VERSION,
        "kind": "JoinToken",
        "metadata": {"name": token.id},
        "spec": {
            "secretSHA256": join_token.hash_of(token.secret),
            "pattern" if whom.endswith("*") else "node": whom,
            "expires": wanted.expires.strftime(RFC_3339),
            "uses": wanted.uses,
            "replace": wanted.replace,
        },
    }
    try:
        await kube.request("POST", PATH, document)
    except ApiRefused as error:
        # The request was repeated after a lost answer: names are drawn from 2^50, so it is our own token.
        if error.status != CONFLICT:
            raise
    return Made(whom=whom, token=token, document=document)


async def introduced(kube: Kube, id: str, seconds: float) -> HubAddresses | None:
    """Wait for a hub to see this token; None if none does within ``seconds``."""
    until = asyncio.get_running_loop().time() + seconds
    while True:
        status = json.loads(await kube.get(f"{PATH}/{id}")).get("status") or {}
        if status.get("pins"):
            return HubAddresses(url=str(status.get("url") or ""), pins=tuple(map(str, status["pins"])))
        if asyncio.get_running_loop().time() >= until:
            return None
        await asyncio.sleep(POLL_SECONDS)


async def delete(kube: Kube, id: str) -> bool:
    """Delete a token; False if there is none.  Raises ``ApiRefused`` or ``ApiUnavailable``."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    try:
        await kube.request("DELETE", f"{PATH}/{urllib.parse.quote(id, safe='')}")
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


async def create_all(
    kube: Kube, wanted: TokenOptions, names: Sequence[str], done: Callable[[str], None]
) -> list[Made | Exception]:
    """Create a token for each name, concurrently; results are in order, and a failure does not stop the others."""
    from fairlead_wire.errors import FairleadError

    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Made | Exception:
        async with gate:
            try:
                return await create(kube, wanted, name)
            except FairleadError as error:
                return error
            finally:
                done(name)

    return list(await asyncio.gather(*map(one, names)))


async def unsuitable_nodes(kube: Kube, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of these names: those without a Node, and those whose Node lacks the label of edge nodes."""
    if len(names) == 1:
        found = await _found(kube, "api/v1/nodes", names[0])
    else:
        found = {each["metadata"]["name"]: each for each in await collections.items(kube, "api/v1/nodes")}
    missing = [name for name in names if name not in found]
    plain = [name for name in names if name in found and EDGE_LABEL not in _labels(found[name])]
    return missing, plain


async def identities(kube: Kube, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """``status.identity`` of the EdgeNodes with these names that exist."""
    path = f"{api_group.ROOT}/edgenodes"
    if len(names) == 1:
        found = await _found(kube, path, names[0])
    else:
        found = {each["metadata"]["name"]: each for each in await collections.items(kube, path)}
    return {name: (found[name].get("status") or {}).get("identity") or {} for name in names if name in found}


async def create_nodes(kube: Kube, names: Sequence[str]) -> None:
    """Create Node objects for devices outside the cluster.  Raises ``ApiRefused``, ``ApiUnavailable``."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {EDGE_LABEL: ""}}}
        async with gate:
            try:
                await kube.request("POST", "api/v1/nodes", document)
            except ApiRefused as error:
                if error.status != CONFLICT:
                    raise

    await asyncio.gather(*map(one, names))


async def _found(kube: Kube, path: str, name: str) -> dict[str, Any]:
    from fairlead_hub.io.cluster.api_error import ApiRefused

    try:
        return {name: json.loads(await kube.get(f"{path}/{urllib.parse.quote(name, safe='')}"))}
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise
        return {}


def _labels(item: dict[str, Any]) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def no_hub() -> click.ClickException:
    """The error for a token that no hub has seen."""
    return click.ClickException(
        f"no hub has seen the token within {HUB_SECONDS:g} s, so the hub's URL and authorities are unknown; the token"
        ' was deleted. Either no hub is running, or it signs no certificates: it needs security = "mtls" and'
        " [identity] ca_cert and ca_key (fairlead doctor --cluster). Or give --hub URL and --ca-file FILE"
    )
