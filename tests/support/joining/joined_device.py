"""A real hub that admits devices, beside a real API server; and devices that join it with the real commands.

site = JoinSite(cluster, folder).start()
device = JoinedDevice(folder / "a");  device.join(site.url, site.create("--node", "shop-17"));  device.start()
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.support.edges.edge_agent import PROGRAM, EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess
from tests.support.joining import pki
from tests.support.kube.cluster import Cluster
from tests.support.processes import Running, start

from fairlead_cli.main import build

COMMAND_SECONDS = 100.0


class JoinSite:
    """``internal`` signs the hub's certificate, ``edges`` those of nodes; the hub has the latter's key."""

    def __init__(self, cluster: Cluster, folder: Path, *, top: str = "", identity: str = "") -> None:
        self.cluster = cluster
        self.internal = pki.Authority(folder / "internal", "internal authority")
        self.edges = pki.Authority(folder / "edges", "edge authority")
        own = self.internal.issue("hub", hosts=("127.0.0.1",))
        self.hub = HubProcess(cluster, folder)
        self.url = self.hub.url = self.hub.url.replace("ws://", "wss://")
        text = self.hub.config.read_text().replace('"insecure"', '"mtls"')
        self.hub.config.write_text(
            f'{text}tls_ca = "{self.internal.certificate}"\ntls_cert = "{own.certificate}"\ntls_key = "{own.key}"\n'
            f"{top}\n"
            f'[identity]\nlink_ca = "{self.edges.certificate}"\nca_cert = "{self.edges.certificate}"\n'
            f'ca_key = "{self.edges.key}"\nurl = "{self.url}"\n{identity}\n[record]\nflush_seconds = 0.1\n'
        )

    def start(self) -> JoinSite:
        self.cluster.apply(CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self.hub.start()
        return self

    def stop(self) -> None:
        """Stop it, and delete what it and its devices left in the cluster."""
        self.hub.stop()
        for plural in ("jointokens", "edgenodes", "syncrules", "edgeroutes", "clusterobjectsyncs"):
            self.cluster.kubectl("delete", "--raw", f"/apis/fairlead.dev/v1alpha1/{plural}")
        self.cluster.kubectl("delete", "--raw", "/api/v1/nodes")
        self.cluster.kubectl("delete", "leases", "--all")

    def create(self, *words: str, given: str = "") -> list[str]:
        """`fairlead token create`; the lines it prints."""
        arguments = ["token", "create", *words, "--kubeconfig", str(self.cluster.kubeconfig)]
        done = CliRunner().invoke(build(), arguments, input=given)
        assert done.exit_code == 0, done.output + self.hub.tail()
        return done.stdout.splitlines()

    def token(self, *words: str) -> str:
        """The text of one token."""
        return self.create(*words)[0]


class JoinedDevice(EdgeAgent):
    """A disk with a settings file that is not filled in yet, and the agent that uses it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(folder, "")
        self.config = folder / "edge.toml"
        self.config.write_text(f'# {folder.name}\nnode = "NODE"\nhttp_listen = "127.0.0.1:{self.port}"\n')

    def join(self, url: str, token: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`fairlead edge join`, whatever its exit code."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
        command = [str(PROGRAM), "edge", "join", url, "--token-file", "-", "--config", str(self.config), *words]
        return subprocess.run(
            command, input=token, capture_output=True, text=True, timeout=COMMAND_SECONDS, env=environ, check=False
        )

    def launch(self) -> Running:
        command = [*self.program, "edge", "run", "--config", str(self.config)]
        self.running = start(self.folder.name, command, self.log, environ={"PATH": "/usr/bin:/bin"})
        return self.running

    def token(self) -> str:
        return (self.folder / "edge-data" / "token").read_text().strip()

    def authorized(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The headers of a local program that may read the agent's token."""
        return self.ask(method, path, body, Authorization=f"Bearer {self.token()}")
