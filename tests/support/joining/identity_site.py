"""A hub that signs certificates of nodes, beside a real API server, and agents that joined it.

site = IdentitySite(cluster, folder)
site.hub.start()
agent = site.agent("shop-1", valid=timedelta(minutes=5))        # as ``fairlead edge join`` leaves a device
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, edge_node
from tests.support.joining.pki import SKEW, VALID, Authority
from tests.support.kube.kubernetes import Kubernetes
from tests.support.processes import wait_until

from fairlead_edge.io.identity.identity_files import IdentityFiles

SECONDS = 120.0
LONG = datetime.timedelta(days=800)
EDGE_NODES = "/apis/fairlead.dev/v1alpha1/edgenodes"


class IdentitySite:
    """``settings`` are further lines of the hub's table ``[identity]``."""

    def __init__(self, kube: Kubernetes, folder: Path, settings: str = "") -> None:
        self.kube, self.folder = kube, folder
        self.internal = Authority(folder / "internal", "internal", valid=LONG, age=LONG)
        self.edges = Authority(folder / "edges", "edges", valid=LONG, age=LONG)
        begins = datetime.datetime.now(datetime.UTC) - LONG
        self.server = server = self.internal.issue("hub", hosts=("127.0.0.1",), begins=begins, valid=LONG)
        top = f'tls_ca = "{self.internal.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
        ca, key = self.edges.certificate, self.edges.key
        self.signing = folder / "signing.crt"
        """The authority that signs now; the link trusts ``edges`` whatever stands here."""
        self.signing.write_bytes(ca.read_bytes())
        toml = f'[identity]\nlink_ca = "{ca}"\nca_cert = "{self.signing}"\nca_key = "{key}"\n{settings}\n'
        self.hub = HubProcess(kube, folder, top=top, toml=f"{toml}[record]\nflush_seconds = 0.1\n")
        self.hub.config.write_text(self.hub.config.read_text().replace('"insecure"', '"mtls"'))
        self.url = self.hub.url = self.hub.url.replace("ws://", "wss://")
        self.agents: list[EdgeAgent] = []

    def node(self, name: str) -> None:
        """Create an edge Node of this name."""
        self.kube.apply(edge_node(name))

    def agent(
        self,
        name: str,
        *,
        valid: datetime.timedelta = VALID,
        age: datetime.timedelta = SKEW,
        url: str = "",
    ) -> EdgeAgent:
        """Not started.  Its certificate began ``age`` ago, and ends in ``valid``."""
        folder = self.folder / name
        (folder / "data").mkdir(parents=True, mode=0o700)
        begins = datetime.datetime.now(datetime.UTC) - age
        pair = self.edges.issue(name, hosts=(name, "localhost"), begins=begins, valid=valid)
        files = IdentityFiles.of(folder / "data")
        files.make_folder()
        files.write_authorities(self.internal.certificate.read_bytes())
        files.use(files.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
        link, authorities = str(files.link), str(files.authorities)
        settings = {"SECURITY": "mtls", "TLS_CA": authorities, "TLS_CERT": link, "TLS_KEY": link}
        agent = EdgeAgent(folder, url or self.url, node=name, **settings)
        self.agents.append(agent)
        return agent

    def close(self) -> None:
        """Kill what runs."""
        for agent in self.agents:
            if agent.running is not None and agent.running.alive:
                agent.kill()
        if self.hub.running is not None and self.hub.running.alive:
            self.hub.kill()

    # ---- what is seen ----------------------------------------------------------------------------

    def identity(self, name: str) -> dict[str, Any]:
        """``status.identity`` of its EdgeNode."""
        return dict(self.status(name).get("identity") or {})

    def status(self, name: str) -> dict[str, Any]:
        found = self.kube.kubectl("get", "--ignore-not-found", "--raw", f"{EDGE_NODES}/{name}", check=False)
        return dict(json.loads(found).get("status") or {}) if found else {}


def serial(agent: EdgeAgent) -> str:
    """The serial number of the pair in use."""
    current = IdentityFiles.of(agent.folder / "data").current()
    assert current is not None
    return current.certificate.serial


def pairs(agent: EdgeAgent) -> int:
    """The number of pairs on its disk."""
    return len(list((agent.folder / "data" / "identity").glob("node-*.pem")))


def said(agent: EdgeAgent) -> dict[str, Any]:
    """The response to ``GET /v1/status``."""
    return dict(agent.get("/v1/status", Authorization=f"Bearer {agent.token()}")[1])


def until(what: str, met: Any, agent: EdgeAgent | None = None, *, seconds: float = SECONDS) -> Any:
    """Poll; a failure shows the agent's log."""
    describe = agent.running.tail if agent is not None and agent.running is not None else (lambda: "")
    return wait_until(what, met, seconds=seconds, describe=describe)


def connected(agent: EdgeAgent) -> Any:
    return until(f"{agent.node} is connected", lambda: said(agent)["link"]["state"] == "connected", agent)
