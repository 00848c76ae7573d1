"""The nodes' authority is replaced while nodes are connected, on a real API server, as the page says."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.support.hubs.hub import HubProcess, edge_node, fleet, until
from tests.support.joining.pki import Authority, Pair
from tests.support.kube.cluster import Cluster

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_wire.io import tls

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "rotate-an-authority.md"
NODES = ("edge-1", "edge-2", "edge-3")
DAY_SECONDS = 86_400


@pytest.fixture
def kube(kube: Cluster) -> Cluster:
    kube.apply([edge_node(name) for name in NODES])
    return kube


def commands() -> list[str]:
    """What the page says to type, in order."""
    text = PAGE.read_text()
    return re.findall(r"<!-- by tests/hub/live/identity/test_rotation.py -->\n```sh\n(.+?)```", text, re.DOTALL)


def counted(hub: HubProcess) -> dict[str, int]:
    """Connected nodes by the authority of their certificates."""
    found = re.findall(r'fairlead_hub_certificates\{connected="true",issuer="(.+?)"\} (\d+)', hub.text("/metrics"))
    return {issuer: int(count) for issuer, count in found}


def _private(path: Path) -> Any:
    return serialization.load_pem_private_key(path.read_bytes(), None)


@contextlib.asynccontextmanager
async def _nodes(hub: HubProcess, contexts: dict[str, Any]) -> AsyncIterator[dict[str, SimulatedNode]]:
    """Each with its own certificate."""
    async with contextlib.AsyncExitStack() as stack:
        nodes: dict[str, SimulatedNode] = {}
        for name, context in contexts.items():
            nodes |= await stack.enter_async_context(fleet(hub, name, context=context))
        yield nodes


@pytest.mark.verify
async def test_no_node_is_lost_while_the_authority_is_replaced(kube: Cluster, tmp_path: Path) -> None:
    """Both are believed, the new one signs, all are asked to renew within a day; then the old one opens nothing."""
    internal, old = Authority(tmp_path / "internal", "internal"), Authority(tmp_path / "old", "nodes 2026")
    server = internal.issue("hub", hosts=("127.0.0.1",))
    trusted, key = tmp_path / "nodes.crt", tmp_path / "nodes.key"
    trusted.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())
    top = f'tls_ca = "{internal.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    toml = f'[identity]\nlink_ca = "{trusted}"\nca_cert = "{trusted}"\nca_key = "{key}"\n'
    hub = HubProcess(kube, tmp_path, top=top, toml=toml)
    hub.config.write_text(hub.config.read_text().replace('"insecure"', '"mtls"'))
    hub.url = hub.url.replace("ws://", "wss://")

    def context(pair: Pair) -> Any:
        return tls.client_context(tls.Files(ca=internal.certificate, cert=pair.certificate, key=pair.key))

    def typed(number: int) -> None:
        subprocess.run(["bash", "-euc", commands()[number]], cwd=tmp_path, check=True, capture_output=True)

    await asyncio.to_thread(hub.start)
    try:
        contexts = {name: context(old.issue(name)) for name in NODES}
        async with _nodes(hub, contexts) as nodes:
            await until("all are connected", lambda: counted(hub) == {"nodes 2026": len(NODES)})
            first = {name: node.figures.connections for name, node in nodes.items()}
            await asyncio.to_thread(typed, 0)
            new = Authority(tmp_path / "new", "nodes 2027", private_key=_private(tmp_path / "new.key"))
            new.certificate.write_bytes((tmp_path / "new.crt").read_bytes())
            await asyncio.to_thread(typed, 1)
            await until("the hub has read them", lambda: hub.events("tls_reloaded"))
            assert {name: node.figures.connections for name, node in nodes.items()} == first, "sessions stay"

            hub.kill()
            await asyncio.to_thread(hub.start)
            await until("all are back", lambda: counted(hub) == {"nodes 2026": len(NODES)})
            asked = [node.welcome.renew_after_seconds for node in nodes.values() if node.welcome is not None]
            assert len(asked) == len(NODES) and all(each is not None and each <= DAY_SECONDS for each in asked)

            for name in NODES[:2]:
                nodes[name].certify(context(new.issue(name)))
                await nodes[name].drop()
            await until("two have renewed", lambda: counted(hub) == {"nodes 2026": 1, "nodes 2027": 2})
            reloaded = len(hub.events("tls_reloaded"))
            trusted.write_bytes(new.certificate.read_bytes())
            await until("the old one is gone", lambda: len(hub.events("tls_reloaded")) > reloaded)
            for node in nodes.values():
                await node.drop()
            await until("the new ones are served", lambda: counted(hub).get("nodes 2027") == 2)
            await until("the old one opens nothing", lambda: hub.metric("fairlead_hub_openings_failed_total") > 0)
            await until("and has no session", lambda: counted(hub) == {"nodes 2027": 2})
    finally:
        assert hub.stop() == 0
