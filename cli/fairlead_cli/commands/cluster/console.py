"""`fairlead console`: opens the hub's console, through kubectl port-forward if the hub is in a cluster."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import webbrowser
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.clients import hub_client
from fairlead_cli.cluster import collections
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairlead_hub.io.cluster.kube import Kube

HTTP_PORT = 10002
"""HTTP port of a hub in a Pod, which only a port-forward reaches because it is on loopback."""
LABELS = "app.kubernetes.io/part-of=fairlead,app.kubernetes.io/component=hub"
PAGE = "/console/"
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


def register(root: click.Group) -> None:
    """Add `console` to the root command."""
    root.add_command(console)


@click.command(short_help="Open the hub's console in a browser.")
@click.option(
    "--hub", envvar=hub_client.HUB_VARIABLE, metavar="URL", help="The hub's address (http_listen); opens no tunnel."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, show_default=True, help="Local port of the tunnel; 0: any."
)
@click.option("--url", "only_url", is_flag=True, help="With --hub: print the address and exit.")
@click.option("--no-open", is_flag=True, help="Print the address without starting a browser.")
@targets.options(namespace=True)
def console(hub: str | None, port: int, only_url: bool, no_open: bool, target: Target) -> None:
    """Open the hub's read-only console: nodes, parked objects and the reasons, topics, events.

    In a cluster the hub listens on loopback only, so kubectl opens a tunnel to its Pod, which stays until Ctrl+C.

    \b
    fairlead console -n fairlead
    fairlead console --hub http://127.0.0.1:10002
    fairlead console --hub http://127.0.0.1:10002 --url
    """
    if hub is not None:
        address = f"{hub_client.hub_url(hub, None)}{PAGE}"
        _show(address, opens=not (no_open or only_url))
        return
    if only_url:
        raise click.UsageError(
            "--url prints the address and exits, which would close the tunnel: give --hub, or --no-open"
        )
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise click.ClickException("kubectl is not on the PATH: install it, or give the hub's address with --hub")
    namespace, pod = target.ask(lambda kube: _pod(kube, target.given_namespace))
    with _tunnel(
        [kubectl, *_same_cluster(target), "-n", namespace, "port-forward", pod, f"{port or ''}:{HTTP_PORT}"]
    ) as at:
        _show(f"http://127.0.0.1:{at}{PAGE}", opens=not no_open)
        click.echo(f"tunnel to {namespace}/{pod}; Ctrl+C ends it", err=True)


def _show(address: str, *, opens: bool) -> None:
    click.echo(address)
    if opens and not webbrowser.open(address):
        click.echo("no browser could be started: open this address in one", err=True)


async def _pod(kube: Kube, namespace: str | None) -> tuple[str, str]:
    """Namespace and name of a ready hub Pod."""
    at = f"namespaces/{namespace}/" if namespace else ""
    pods = await collections.items(kube, f"api/v1/{at}pods", labelSelector=LABELS)
    for pod in sorted(pods, key=lambda each: not _is_ready(each)):
        if not _is_ready(pod):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            raise click.ClickException(f"no hub is ready; {name} is {(pod.get('status') or {}).get('phase')}")
        return pod["metadata"]["namespace"], pod["metadata"]["name"]
    where = f"namespace {namespace}" if namespace else "any namespace"
    raise click.ClickException(f"there is no hub Pod in {where}: give the hub's address with --hub")


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _same_cluster(target: Target) -> list[str]:
    words = [f"--kubeconfig={target.kubeconfig}"] if target.kubeconfig else []
    return [*words, f"--context={target.context}"] if target.context else words


class _tunnel:
    """Runs kubectl; the block runs once the tunnel is open, and at its end waits for Ctrl+C."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def __enter__(self) -> int:
        self._running = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._running.stdout is not None
        for line in self._running.stdout:
            if found := _FORWARDING.match(line):
                return int(found[1])
        self._running.wait()
        raise click.ClickException("kubectl opened no tunnel; see its output above")

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            if kind is None:
                _drain(iter(self._running.stdout or ()))
        self._running.terminate()
        code = self._running.wait()
        if kind is None and code > 0:
            click.echo("the tunnel ended", err=True)
            sys.exit(1)


def _drain(lines: Iterator[str]) -> None:
    for _ in lines:
        pass
