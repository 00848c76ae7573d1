"""A node's certificate is revoked, on a real API server, with a real hub and a real agent."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, edge_node, fleet, until
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster

from fairlead_wire.io import tls

PATH = "/apis/fairlead.dev/v1alpha1/edgenodes"


@pytest.fixture
def kube(kube: Cluster) -> Cluster:
    kube.apply(edge_node("edge-1"))
    return kube


class Lab:
    """A hub with an authority for nodes and one for itself, and node edge-1."""

    def __init__(self, kube: Cluster, folder: Path, *, top: str = "", node: str = "edge-1") -> None:
        self.kube, self.folder, self.node = kube, folder, node
        self.internal, self.edges = Authority(folder / "internal", "internal"), Authority(folder / "edge", "edge")
        server = self.internal.issue("hub", hosts=("127.0.0.1",))
        top = f'tls_ca = "{self.internal.certificate}"\nidentity.link_ca = "{self.edges.certificate}"\n{top}'
        top += f'tls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
        self.hub = HubProcess(kube, folder, top=top, toml="[record]\nflush_seconds = 0.1\n")
        self.hub.config.write_text(self.hub.config.read_text().replace('"insecure"', '"mtls"'))
        self.hub.url = self.hub.url.replace("ws://", "wss://")
        self.pair = self.edges.issue(node, uri=f"spiffe://fairlead/node/{node}")

    def agent(self) -> EdgeAgent:
        files = {"TLS_CA": self.internal.certificate, "TLS_CERT": self.pair.certificate, "TLS_KEY": self.pair.key}
        named = {"NODE": self.node, **{key: str(file) for key, file in files.items()}}
        return EdgeAgent(self.folder, self.hub.url, SECURITY="mtls", **named)

    def client(self) -> Any:
        files = tls.Files(ca=self.internal.certificate, cert=self.pair.certificate, key=self.pair.key)
        return tls.client_context(files)

    def edge_node(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self.kube.get(f"{PATH}/{self.node}")
        except OSError:
            return {}
        return found

    def identity(self) -> dict[str, Any]:
        found: dict[str, Any] = self.edge_node().get("status", {}).get("identity") or {}
        return found

    def lift(self) -> None:
        """Else the EdgeNode could not be deleted while a hub runs."""
        patch = '{"spec":{"revoked":null}}'
        self.kube.kubectl("patch", "edgenode", self.node, "--type=merge", "-p", patch)

    def revoke(self) -> str:
        """As a person does; what is said."""
        command = [sys.executable, "-m", "fairlead_cli.main", "node", "revoke", self.node, "--reason", "stolen"]
        command += ["--kubeconfig", str(self.kube.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def link_of(agent: EdgeAgent) -> dict[str, Any]:
    try:
        found: dict[str, Any] = agent.get("/v1/status", Authorization=f"Bearer {agent.token()}")[1]["link"]
    except OSError:
        return {}
    return found


@pytest.mark.verify
async def test_revoked_is_cut_off_and_stays_out_until_it_has_a_new_certificate(kube: Cluster, tmp_path: Path) -> None:
    """The session ends; neither a new hub, nor a new agent, nor a deleted Node and EdgeNode let it in again."""
    lab = await asyncio.to_thread(Lab, kube, tmp_path)
    await asyncio.to_thread(lab.hub.start)
    agent = lab.agent()
    try:
        await asyncio.to_thread(agent.start)
        await until("it is served", lambda: lab.identity().get("state") == "Valid")
        assert lab.identity()["issuer"] == "edge" and len(lab.identity()["serial"]) > 10
        assert "are revoked" in await asyncio.to_thread(lab.revoke)
        before = datetime.datetime.fromisoformat(lab.edge_node()["spec"]["revoked"]["before"])
        await until("the agent says why", lambda: "stolen" in link_of(agent).get("reason", ""))
        await until("EdgeNode says so", lambda: lab.identity()["state"] == "Revoked")
        events = await asyncio.to_thread(kube.kubectl, "get", "events", "-A", "-o", "jsonpath={.items[*].reason}")
        assert "IdentityRevoked" in events

        lab.hub.kill()
        await asyncio.to_thread(agent.kill)
        await asyncio.to_thread(kube.kubectl, "delete", "node", "edge-1")
        await asyncio.to_thread(kube.apply, edge_node("edge-1"))
        await asyncio.to_thread(lab.hub.start)
        await asyncio.to_thread(agent.start)
        await until("still", lambda: "stolen" in link_of(agent).get("reason", ""))

        await asyncio.to_thread(kube.kubectl, "delete", "edgenode", "edge-1")
        await until("its EdgeNode is back", lambda: lab.edge_node().get("spec", {}).get("revoked"))
        async with fleet(lab.hub, "edge-1", context=lab.client()) as nodes:
            figures = nodes["edge-1"].figures
            await until("a copy of its disk is refused, too", lambda: figures.refused.get("revoked"))
            assert not nodes["edge-1"].connected.is_set()

        # A new certificate in the same files: the agent, told to come again in ten minutes, comes at once.
        lab.edges.issue("edge-1", begins=before)
        await until("it is served again", lambda: link_of(agent).get("state") == "connected")
        await until("and EdgeNode says so", lambda: lab.identity()["state"] == "Valid")
        assert lab.edge_node()["spec"]["revoked"]["reason"] == "stolen"
        assert await asyncio.to_thread(agent.stop) == 0
    finally:
        if agent.running is not None:
            agent.kill()
        assert lab.hub.stop() == 0
        await asyncio.to_thread(lab.lift)
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()
    assert [line["event"] for line in lab.hub.events("session_refused")]


@pytest.mark.verify
async def test_a_name_of_253_characters_is_a_name_like_any_other(kube: Cluster, tmp_path: Path) -> None:
    """Through certificate, session, Node, EdgeNode and command line; it is no common name, for these end at 64."""
    node = ("a" * 62 + ".") * 4 + "b"
    assert len(node) == 253
    await asyncio.to_thread(kube.apply, edge_node(node))
    lab = await asyncio.to_thread(partial(Lab, kube, tmp_path, node=node))
    await asyncio.to_thread(lab.hub.start)
    agent = lab.agent()
    try:
        await asyncio.to_thread(agent.start)
        await until("it is served", lambda: lab.identity().get("state") == "Valid")
        command = [sys.executable, "-m", "fairlead_cli.main", "nodes", node, "-o", "wide"]
        command += ["--kubeconfig", str(kube.kubeconfig)]
        shown = (await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)).stdout
        assert node in shown and "Valid" in shown
        assert node in await asyncio.to_thread(lab.revoke)
        await until("the agent says why", lambda: "stolen" in link_of(agent).get("reason", ""))
    finally:
        if agent.running is not None:
            agent.kill()
        assert lab.hub.stop() == 0
        await asyncio.to_thread(lab.lift)
