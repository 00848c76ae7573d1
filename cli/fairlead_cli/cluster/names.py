"""Shell completion of nodes, objects, routes, namespaces and contexts.

The cluster is asked with the options that are already on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from fairlead_cli.cluster.target import Target
from fairlead_cli.completing import beginning, given, limit, within
from fairlead_wire.objects import api_group

NAMES_MAX = 500
EDGE_NODES = "api/v1/nodes?labelSelector=node-role.kubernetes.io%2Fedge"


def nodes(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Edge nodes."""
    return beginning(incomplete, within(lambda: _names(context, EDGE_NODES)))


def edge_routes(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """EdgeRoutes objects."""
    return beginning(incomplete, within(lambda: _names(context, f"{api_group.ROOT}/edgeroutes")))


def join_tokens(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of join tokens."""
    return beginning(incomplete, within(lambda: _names(context, f"{api_group.ROOT}/jointokens")))


def namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Namespaces of the cluster."""
    return beginning(incomplete, within(lambda: _names(context, "api/v1/namespaces")))


def objects(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """KIND/NAME of objects that have records, in the namespace on the command line."""

    def found() -> Iterable[str]:
        target = _target(context)
        paths = [f"{api_group.ROOT}/clusterobjectsyncs", target.path("objectsyncs")]
        return [
            f"{item['spec']['objectKind'].lower()}/{item['spec']['objectName']}"
            for path in paths
            for item in _items(target, path)
        ]

    return beginning(incomplete, within(found))


def nodes_and_objects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Nodes and objects."""
    return [*nodes(context, parameter, incomplete), *objects(context, parameter, incomplete)]


def contexts(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Contexts of the kubeconfig."""
    return beginning(incomplete, within(lambda: _target(context).contexts()))


def _names(context: click.Context, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in _items(_target(context), path)]


def _items(target: Target, path: str) -> list[dict[str, Any]]:
    path, _, query = path.partition("?")
    separator = "&" if query else ""
    whole = f"{path}?{query}{separator}limit={NAMES_MAX}"
    answer = target.ask(lambda kube: kube.request("GET", whole, attempts=1, seconds=limit()))
    found: list[dict[str, Any]] = json.loads(answer)["items"]
    return found


def _target(context: click.Context) -> Target:
    return Target(
        kubeconfig=_path(given(context, "kubeconfig")),
        context=given(context, "context"),
        given_namespace=given(context, "namespace"),
        all_namespaces=bool(given(context, "all_namespaces")),
    )


def _path(value: Any) -> Path | None:
    return None if value is None else Path(value)
