"""A Node deleted and made again, on a real API server with a real hub and certificates of two authorities."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import HubProcess, edge_node, fleet, until
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster

from fairlead_wire.io import tls
from fairlead_wire.objects.api_group import APPROVE_IDENTITY

PATH = "/apis/fairlead.dev/v1alpha1/edgenodes/edge-1"


@pytest.fixture
def kube(kube: Cluster) -> Cluster:
    kube.apply(edge_node("edge-1"))
    return kube


def status(kube: Cluster) -> dict[str, Any]:
    try:
        found: dict[str, Any] = kube.get(PATH).get("status", {})
    except OSError:
        return {}
    return found


@pytest.mark.verify
async def test_an_old_certificate_waits_for_approval(kube: Cluster, tmp_path: Path) -> None:
    """Also when the Node was made again while no hub ran; the EdgeNode says how to go on, and outlives the Node."""
    internal, edges = Authority(tmp_path / "internal", "internal"), Authority(tmp_path / "edge", "edge")
    server, client = internal.issue("hub", hosts=("127.0.0.1",)), edges.issue("edge-1")
    top = f'tls_ca = "{internal.certificate}"\nidentity.link_ca = "{edges.certificate}"\n'
    top += f'tls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    hub = HubProcess(kube, tmp_path, top=top, toml="[record]\nflush_seconds = 0.1\n")
    hub.config.write_text(hub.config.read_text().replace('"insecure"', '"mtls"'))
    hub.url = hub.url.replace("ws://", "wss://")
    hub.start()
    context = tls.client_context(tls.Files(ca=internal.certificate, cert=client.certificate, key=client.key))
    first = kube.get("/api/v1/nodes/edge-1")["metadata"]["uid"]
    try:
        async with fleet(hub, "edge-1", context=context) as nodes:
            await until("it is served", nodes["edge-1"].connected.is_set)
            await until("it is bound", lambda: (status(kube).get("identity") or {}).get("nodeUID") == first)
            hub.kill()
        await asyncio.to_thread(kube.kubectl, "delete", "node", "edge-1")
        await asyncio.to_thread(kube.apply, edge_node("edge-1"))
        second = kube.get("/api/v1/nodes/edge-1")["metadata"]["uid"]
        hub.start()
        async with fleet(hub, "edge-1", context=context) as nodes:
            node = nodes["edge-1"]
            await until("it is held", lambda: (status(kube).get("identity") or {}).get("held") == second)
            assert node.figures.refused.get("identity") and not node.connected.is_set()
        annotation = f"{APPROVE_IDENTITY}={second}"
        await asyncio.to_thread(kube.kubectl, "annotate", "enode", "edge-1", "--overwrite", annotation)
        async with fleet(hub, "edge-1", context=context) as nodes:
            await until("approved, it is served", nodes["edge-1"].connected.is_set, seconds=120)
            await until("and bound anew", lambda: status(kube)["identity"]["nodeUID"] == second)
    finally:
        assert hub.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()
