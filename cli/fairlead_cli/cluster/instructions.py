"""Annotations that instruct the hub, on an EdgeNode or on a delivered object."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

NOT_FOUND = 404


def node_path(node: str) -> str:
    """Path of the node's EdgeNode."""
    return f"{api_group.ROOT}/edgenodes/{urllib.parse.quote(node, safe='')}"


async def edge_node(kube: Kube, node: str) -> dict[str, Any]:
    """Get the EdgeNode.  Raises ``click.ClickException`` if there is none."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    try:
        found: dict[str, Any] = json.loads(await kube.get(node_path(node)))
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise
        text = f"there is no EdgeNode {node}; fairlead status lists them, and a node that never connected has none"
        raise click.ClickException(text) from None
    return found


def of(item: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object."""
    found: Mapping[str, str] = (item.get("metadata") or {}).get("annotations") or {}
    return found


async def write(kube: Kube, path: str, changes: Mapping[str, str | None]) -> None:
    """Set annotations; None removes one.  Nothing else in the object changes."""
    from fairlead_hub.io.cluster.kube import MERGE_PATCH

    await kube.request("PATCH", path, {"metadata": {"annotations": dict(changes)}}, content_type=MERGE_PATCH)
