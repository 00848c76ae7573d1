"""Service accounts of hubs: as one is written on the command line, and as the hub's Pods have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import collections
from fairlead_cli.cluster.hub_role import ServiceAccount

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

HUBS = "app.kubernetes.io/part-of=fairlead,app.kubernetes.io/component=hub"
EXAMPLE = "fairlead:fairlead-hub"


def parse(text: str | None) -> ServiceAccount | None:
    """NAMESPACE:NAME; wrong use otherwise."""
    if text is None:
        return None
    namespace, colon, name = text.partition(":")
    if not (colon and namespace and name) or "/" in text:
        raise click.UsageError(f"--hub-account {text}: must be NAMESPACE:NAME, as in {EXAMPLE}")
    return ServiceAccount(namespace, name)


async def found(kube: Kube) -> list[ServiceAccount]:
    """Those of the Pods that the chart makes."""
    pods = await collections.items(kube, "api/v1/pods", labelSelector=HUBS)
    accounts = {
        (str(pod["metadata"]["namespace"]), str((pod.get("spec") or {}).get("serviceAccountName") or "default"))
        for pod in pods
    }
    return [ServiceAccount(namespace, name) for namespace, name in sorted(accounts)]


def one_of(accounts: Sequence[ServiceAccount]) -> ServiceAccount:
    """The only one; else a sentence that asks for it."""
    if len(accounts) == 1:
        return accounts[0]
    shown = ", ".join(f"{each.namespace}:{each.name}" for each in accounts) or "no Pod of a hub is there"
    raise click.ClickException(f"whose role shall it be? ({shown}) say --hub-account NAMESPACE:NAME")
