"""`fairlead bench nodes`: loads a hub with simulated nodes, to size it."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead_cli.parameters import Url

if TYPE_CHECKING:
    from fairlead_cli.simulated_node import Behaviour, SimulatedNode

REPORT_SECONDS = 1.0
BEHAVIOURS = ("well", "slow", "never-ack", "nack", "lose-acks", "flapping")
"""The values of ``simulated_node.Behaviour``, which is not imported for the help."""


def register(root: click.Group) -> None:
    """Add `bench` to the root command."""
    root.add_command(bench)


@click.group(short_help="Load a hub with simulated nodes.")
def bench() -> None:
    """Load a hub with simulated nodes, which use real connections and keep their store in memory."""


@bench.command()
@click.option(
    "--hub", "url", type=Url("ws", "wss"), default="ws://127.0.0.1:10000", show_default=True, help="The hub's URL."
)
@click.option("--count", default=10, show_default=True, type=click.IntRange(1, 20_000), help="Number of nodes.")
@click.option(
    "--prefix", default="bench-", show_default=True, help="Nodes are named PREFIX0, PREFIX1, …; the Nodes must exist."
)
@click.option(
    "--behaviour", type=click.Choice(BEHAVIOURS), default="well", show_default=True, help="Behavior of the nodes."
)
@click.option(
    "--bad", type=click.IntRange(0), default=None, help="Only this many nodes behave that way; the others behave well."
)
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(0.1), help="Duration in seconds.")
@click.option("--tls-ca", type=click.Path(exists=True, path_type=Path), help="Authority of the hub's certificate.")
@click.option(
    "--tls-dir", type=click.Path(exists=True, path_type=Path), help="Directory with NAME.crt and NAME.key of each node."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def nodes(
    url: str,
    count: int,
    prefix: str,
    behaviour: Behaviour,
    bad: int | None,
    seconds: float,
    tls_ca: Path | None,
    tls_dir: Path | None,
    output: str,
) -> None:
    """Connect simulated nodes, and report what they received.

    \b
    kubectl create -f - <<< '{"apiVersion":"v1","kind":"Node","metadata":{"name":"bench-0",
      "labels":{"node-role.kubernetes.io/edge":""}}}'
    fairlead bench nodes --hub ws://127.0.0.1:10000 --count 1
    """
    if url.startswith("wss://") and (tls_ca is None or tls_dir is None):
        raise click.UsageError("wss:// needs --tls-ca and --tls-dir")
    # Imported here because the images of messaging and ingest have no websockets.
    from fairlead_cli.simulated_node import SimulatedNode

    misbehaving = count if bad is None else bad
    fleet = [
        SimulatedNode(
            f"{prefix}{index}",
            url,
            behaviour=behaviour if index < misbehaving else "well",
            context=_context(tls_ca, tls_dir, f"{prefix}{index}"),
        )
        for index in range(count)
    ]
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(fleet, seconds, output))
    except KeyboardInterrupt:
        pass  # still print the report
    _report(fleet, output)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed, so that thousands of nodes in one process are not slower than the hub."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _context(ca: Path | None, folder: Path | None, name: str) -> ssl.SSLContext | None:
    if ca is None or folder is None:
        return None
    from fairlead_wire.io import tls

    return tls.client_context(tls.Files(ca=ca, cert=folder / f"{name}.crt", key=folder / f"{name}.key"))


async def _run(fleet: list[SimulatedNode], seconds: float, output: str) -> None:
    tasks = [asyncio.create_task(node.run()) for node in fleet]
    ends = time.monotonic() + seconds
    before = 0
    while (left := ends - time.monotonic()) > 0:
        await asyncio.sleep(min(REPORT_SECONDS, left))
        updates = sum(node.figures.updates for node in fleet)
        if output == "text":
            connected = sum(node.connected.is_set() for node in fleet)
            click.echo(f"{connected} of {len(fleet)} connected, {updates} updates, {updates - before} in this second")
        before = updates
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _report(fleet: list[SimulatedNode], output: str) -> None:
    figures = {
        "nodes": len(fleet),
        "connections": sum(node.figures.connections for node in fleet),
        "held": sum(len(node.held) for node in fleet),
        "updates": sum(node.figures.updates for node in fleet),
        "deletes": sum(node.figures.deletes for node in fleet),
        "sent_again": sum(node.figures.same for node in fleet),
        "bytes_down": sum(node.figures.bytes_down for node in fleet),
        "bytes_up": sum(node.figures.bytes_up for node in fleet),
        "refused": {
            code: sum(n.figures.refused.get(code, 0) for n in fleet) for n in fleet for code in n.figures.refused
        },
    }
    if output == "json":
        click.echo(json.dumps(figures))
        return
    for name, value in figures.items():
        click.echo(f"{name.replace('_', ' '):12} {value}")
