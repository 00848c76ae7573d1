"""What commands ask: a hub that runs, with one connected node, and a messaging service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, fleet, sync_rule
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until
from tests.support.topics.messaging import Topics, serving

from fairlead_cli.main import build
from fairlead_hub import leadership

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def asked_hub(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """edge-near is connected and holds two ConfigMaps of namespace cli-test; edge-far never was.

    It ends with its module: a hub that lived on would hold the Lease and collect the records of all tests behind it.
    """
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cli-test"}})
    cluster.apply([edge_node("edge-near"), edge_node("edge-far")])
    cluster.apply([config_map("a", "cli-test", v="1"), config_map("b", "cli-test", v="1")])
    cluster.apply(sync_rule("cli-test", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["cli-test"]}))
    hub = HubProcess(cluster, tmp_path_factory.mktemp("hub"), toml="[record]\nflush_seconds = 0.1\n").start()
    try:
        yield from _with_a_node(cluster, hub)
    finally:
        hub.stop()
        cluster.kubectl("delete", "node", "edge-near", "edge-far")
        # The garbage collector would take them too, but later: the next module would still see them.
        cluster.kubectl("delete", "edgenode", "edge-near", "edge-far", "--ignore-not-found")
        cluster.kubectl("delete", "syncrule", "cli-test")
        cluster.kubectl("delete", "configmaps,objectsyncs", "--all", "-n", "cli-test")
        cluster.kubectl("delete", "lease", leadership.NAME)


def _with_a_node(cluster: Cluster, hub: HubProcess) -> Iterator[HubProcess]:
    loop, enough = asyncio.new_event_loop(), asyncio.Event()

    async def connected() -> None:
        async with fleet(hub, "edge-near"):
            await enough.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(connected(),), daemon=True)
    thread.start()
    synced = ("get", "osync", "-n", "cli-test")
    # EdgeNodes are written behind: that one is there does not say that it counts the objects yet.
    account = ("get", "enode", "edge-near", "-o", "jsonpath={.status.connected} {.status.objectsHeld}")
    try:
        wait_until("records", lambda: cluster.kubectl(*synced).count("Synced") >= 2, seconds=120, describe=hub.tail)
        wait_until("account", lambda: cluster.kubectl(*account) == "true 2", seconds=120, describe=hub.tail)
        yield hub
    finally:
        loop.call_soon_threadsafe(enough.set)
        thread.join()
        loop.close()


@pytest.fixture
def hub_http(asked_hub: HubProcess) -> str:
    return f"http://127.0.0.1:{asked_hub.http_port}"


@pytest.fixture
def hub_config(asked_hub: HubProcess) -> Path:
    return asked_hub.config


@pytest.fixture
def messaging() -> Iterator[Topics]:
    """A running service on a loop of its own; the command line is a program of its own too."""
    ready, stop, running = threading.Event(), asyncio.Event(), []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with serving() as topics:
            running.append(topics)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield running[0]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join()


@pytest.fixture
def run(messaging: Topics) -> Run:
    """`run("list", "-o", "json")` is `fairlead topics list -o json`."""

    def invoke(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(build(), ["topics", "--url", messaging.url, *words], input=stdin)

    return invoke
