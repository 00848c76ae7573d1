"""The programs of the demo, started from the installed package the way a user starts them.

    kube-apiserver ◄── hub ◄── link 1..3 ◄── edge-1..3
                        └──► messaging ◄── ingest ──► Delta table

The link uses mutual TLS: the hub signs node certificates with an authority of this run, and each edge joins with a
token, as devices do.  Everything else is plain HTTP on loopback; state, configuration and logs are in one folder.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.demo.edge import HOST, Edge
from e2e.demo.record import Record
from e2e.demo.screen import Screen
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster
from tests.support.kube.kubernetes import Kubernetes
from tests.support.processes import Running, Unmet, free_ports, start

ROOT = Path(__file__).resolve().parents[2]
FAIRLEAD = Path(sys.executable).parent / "fairlead"
NODES = ("edge-1", "edge-2", "edge-3")
TOPICS = ("harbour/telemetry", "harbour/alarms")
READY_SECONDS = 180.0
TOOL_SECONDS = 180.0
INGEST_ONCE_SECONDS = 600.0
INGEST_READY_SECONDS = 300.0


def toml(values: Mapping[str, object]) -> str:
    """A TOML document: text, numbers, lists of text, and tables of these behind them."""
    lines: list[str] = []
    for key, value in sorted(values.items(), key=lambda each: isinstance(each[1], Mapping)):
        if isinstance(value, Mapping):
            lines.append(f"[{key}]\n{toml(value)}")
            continue
        if isinstance(value, list | tuple):
            text = "[" + ", ".join(f'"{each}"' for each in value) + "]"
        elif isinstance(value, int | float):
            text = str(value)
        else:
            text = f'"{value}"'
        lines.append(f"{key} = {text}\n")
    return "".join(lines)


class Stack:
    """All running programs; `stop()` ends them in a safe order."""

    def __init__(
        self, folder: Path, kubeconfig: Path | None, *, outlive: bool, screen: Screen, controllers: bool = True
    ) -> None:
        """`kubeconfig` is the user's cluster, None for our own; `outlive` leaves the programs running at the end.

        `controllers`: whether our own cluster also deletes namespaces and collects garbage.
        """
        self.folder = folder
        self.logs = folder / "logs"
        self.table = folder / "table"
        self.running: dict[str, Running] = {}
        self.record = Record.of(folder)
        self._tls: Mapping[str, object] = {}
        self._identity: Mapping[str, object] = {}
        self.brought_definitions = False
        """True if the cluster had none of our definitions before; then they are deleted at the end."""
        self._outlive = outlive
        self._screen = screen
        ours = Cluster(folder / "cluster", outlive=outlive, controllers=controllers, on_change=self._note)
        self._cluster = None if kubeconfig else ours
        self.kubernetes: Kubernetes = self._cluster or Kubernetes(kubeconfig or Path())
        ports = free_ports(5 + 2 * len(NODES))
        self._messaging, self._hub_link, self._hub_http, self._ingest_once, self._ingest = ports[:5]
        self._links = dict(zip(NODES, ports[5 : 5 + len(NODES)], strict=True))
        self.edges = {
            name: Edge(name=name, port=port, token=folder / name / "token")
            for name, port in zip(NODES, ports[5 + len(NODES) :], strict=True)
        }

    # --- what runs

    def start_cluster(self) -> None:
        """Start our own control plane, unless the user's cluster is used.

        All addresses are known from here on, so they are published before the other programs start.
        """
        if self._cluster is not None:
            self._cluster.start()
        self.write_environment()

    def start_messaging(self) -> None:
        """The topics."""
        self._program(
            "messaging",
            self._messaging,
            {"http_listen": f"{HOST}:{self._messaging}", "data_dir": self.folder / "messaging", "security": "insecure"},
        )

    def start_hub(self, seconds: float = READY_SECONDS) -> None:
        """The hub; ready within `seconds`."""
        tls = self.folder / "tls"
        if not tls.exists():
            hub = Authority(tls / "internal", "internal authority").issue("hub", hosts=(HOST, "localhost"))
            nodes = Authority(tls / "nodes", "authority of nodes")
            self._tls = {"tls_ca": tls / "internal" / "ca.crt", "tls_cert": hub.certificate, "tls_key": hub.key}
            self._identity = {
                "link_ca": nodes.certificate, "ca_cert": nodes.certificate, "ca_key": nodes.key, "url": self.link_url,
            }  # fmt: skip
        self._program(
            "hub",
            self._hub_http,
            {
                "kubeconfig": self.kubernetes.kubeconfig,
                "listen": f"{HOST}:{self._hub_link}",
                "http_listen": f"{HOST}:{self._hub_http}",
                "messaging_url": f"http://{HOST}:{self._messaging}",
                **self._tls,
                "identity": self._identity,
            },
            seconds,
        )

    def start_edge(self, node: str) -> None:
        """One node's agent; it joins with a token the first time."""
        settings = self.folder / f"{node}.toml"
        if not settings.exists():
            self._write(node, {"data_dir": self.folder / node, "http_listen": f"{HOST}:{self.edges[node].port}"})
            token = self.fairlead("token", "create", "--node", node, config="", kubeconfig=True)
            link = f"wss://{HOST}:{self._links[node]}"
            self.fairlead("edge", "join", link, "--token-file", "-", config=str(settings), given=token)
        command = [str(FAIRLEAD), "edge", "run", "--config", str(settings)]
        self._ready(node, self.edges[node].port, self._start(node, command), READY_SECONDS)

    def join_link(self, node: str) -> None:
        """Restore the node's link."""
        name = f"link-{node}"
        command = [sys.executable, "-m", "e2e.demo.proxy", str(self._links[node]), str(self._hub_link)]
        running = self._start(name, command, folder=ROOT)
        self._screen.wait(
            f"{name} carries", lambda: "->" in running.log.read_text(), seconds=READY_SECONDS, describe=running.tail
        )

    def cut_link(self, node: str) -> None:
        """Cut the node's link: close open connections and refuse new ones."""
        self.running.pop(f"link-{node}").kill()

    def follow(self, node: str, namespace: str, name: str) -> Running:
        """The example program that follows a ConfigMap through the node's agent."""
        command = [sys.executable, str(ROOT / "examples" / "watch" / "follow.py")]
        edge = self.edges[node]
        return self._start(f"follow-{node}", [*command, f"http://{HOST}:{edge.port}", namespace, name, str(edge.token)])

    def ingest_once(self) -> float:
        """Run ingest over the existing messages until it ends; returns the seconds it took."""
        started = self._screen.seconds
        running = self._start_ingest("ingest-once", "available-now", self._ingest_once)
        self._screen.wait(
            "ingest writes what there is and ends", lambda: not running.alive, seconds=INGEST_ONCE_SECONDS,
            every=0.5, describe=running.tail,
        )  # fmt: skip
        if running.process.returncode != 0:
            raise Unmet(f"ingest with trigger available-now must exit 0\n{running.tail()}")
        del self.running["ingest-once"]
        return self._screen.seconds - started

    def start_ingest(self) -> None:
        """Keep ingest running with a trigger of one second; ready when its query runs."""
        self._ready("ingest", self._ingest, self._start_ingest("ingest", 1, self._ingest), INGEST_READY_SECONDS)

    def kill(self, name: str) -> None:
        """kill -9."""
        self.running.pop(name).kill()

    def stop_politely(self, name: str) -> int:
        """SIGTERM; returns the exit code."""
        code = self.running.pop(name).stop()
        self._note()
        return code

    def stop(self) -> None:
        """Stop everything that was started here."""
        for name in reversed(list(self.running)):
            self.running.pop(name).kill()
        if self._cluster is not None:
            self._cluster.stop()
        self.record.path.unlink(missing_ok=True)

    # --- what it shows

    def metric(self, name: str, metric: str) -> float:
        """The sum of one Prometheus metric's samples in a program's /metrics, over all labels; 0 when absent."""
        port = {"hub": self._hub_http, "messaging": self._messaging, "ingest": self._ingest}.get(name)
        shown = {} if port is not None else self.edges[name].headers()
        text = get_text(port if port is not None else self.edges[name].port, "/metrics", shown)
        total = 0.0
        for line in text.splitlines():
            if line.split("{")[0].split(" ")[0] == metric:
                total += float(line.rsplit(" ", 1)[1])
        return total

    def tail(self, name: str) -> str:
        """The end of a program's log."""
        running = self.running.get(name)
        return running.tail() if running else f"--- {name} is not running"

    def tails(self) -> str:
        """The ends of the logs of all programs that have exited by themselves, or of all programs if none has."""
        ended = [running for running in self.running.values() if not running.alive]
        return "\n".join(running.tail(10) for running in ended or self.running.values())

    def fairlead(self, *arguments: str, config: str | None = None, kubeconfig: bool = False, given: str = "") -> str:
        """Run one of the program's tools and return what it prints; raises Unmet when it fails.

        ``config``: its settings, by default the hub's; ``given``: its standard input.
        """
        config = str(self.folder / "hub.toml") if config is None else config
        command = [str(FAIRLEAD), *arguments, *(("--config", config) if config else ())]
        command += ["--kubeconfig", str(self.kubernetes.kubeconfig)] if kubeconfig else []
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, env=self._environ(), timeout=TOOL_SECONDS
        )
        if done.returncode != 0:
            raise Unmet(f"{shlex.join(command)} exited with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def addresses(self) -> list[tuple[str, str]]:
        """The addresses of the programs, for people who explore."""
        programs, cluster = shlex.quote(str(self.kubernetes.assets)), shlex.quote(str(self.kubernetes.kubeconfig))
        return [
            ("kubectl", f"export PATH={programs}:$PATH KUBECONFIG={cluster}"),
            ("status", shlex.join([str(FAIRLEAD), "status", "--config", str(self.folder / "hub.toml")])),
            ("console", f"http://{HOST}:{self._hub_http}/console/"),
            ("hub", f"http://{HOST}:{self._hub_http}/metrics"),
            ("messaging", f"http://{HOST}:{self._messaging}/v1/namespaces/harbour/topics"),
            *((name, f"http://{HOST}:{edge.port}/v1/status") for name, edge in self.edges.items()),
            ("table", str(self.table)),
            ("logs", str(self.logs)),
        ]

    def write_environment(self) -> Path:
        """Write a file to `source`: it puts the programs on PATH and sets the addresses."""
        path = self.folder / "env"
        edges = {edge.name.upper().replace("-", "_"): edge for edge in self.edges.values()}
        cable = shlex.join([sys.executable, "-m", "e2e.demo.cable", str(self.folder)])
        words = {
            "KUBECONFIG": str(self.kubernetes.kubeconfig),
            "FAIRLEAD_HUB_URL": f"http://{HOST}:{self._hub_http}",
            "FAIRLEAD_MESSAGING_URL": f"http://{HOST}:{self._messaging}",
            "LINK": self.link_url,
            **{name: f"http://{HOST}:{edge.port}" for name, edge in edges.items()},
            **{f"{name}_DATA": str(self.folder / edge.name) for name, edge in edges.items()},
            **{f"{name}_KUBECONFIG": str(self._kubeconfig(edge)) for name, edge in edges.items()},
        }
        lines = [
            f"export PATH={shlex.quote(f'{FAIRLEAD.parent}:{self.kubernetes.assets}')}:$PATH",
            *(f"export {name}={shlex.quote(value)}" for name, value in words.items()),
            *(
                f'export {name}_AUTH="Authorization: Bearer $(cat {shlex.quote(str(edge.token))} 2>/dev/null)"'
                for name, edge in edges.items()
            ),
            f'cable() {{ (cd {shlex.quote(str(ROOT))} && {cable} "$@"); }}',
        ]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    @property
    def link_url(self) -> str:
        """Where devices join."""
        return f"wss://{HOST}:{self._hub_link}"

    def _kubeconfig(self, edge: Edge) -> Path:
        """For kubectl against a node's agent: TLS by its own certificate, and its token."""
        path = self.folder / f"{edge.name}.kubeconfig"
        server = {
            "server": f"https://{HOST}:{edge.port}",
            "tls-server-name": edge.name,
            "certificate-authority": str(self.folder / f"{edge.name}-ca.crt"),
        }
        named = {"name": edge.name}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": edge.name,
                    "clusters": [{**named, "cluster": server}],
                    "users": [{**named, "user": {"tokenFile": str(edge.token)}}],
                    "contexts": [{**named, "context": {"cluster": edge.name, "user": edge.name}}],
                }
            )
        )  # fmt: skip
        return path

    # --- starting

    def _start_ingest(self, name: str, trigger: str | int, port: int) -> Running:
        settings = {
            "messaging_url": f"http://{HOST}:{self._messaging}",
            "topics": TOPICS,
            "table": self.table,
            "checkpoint": self.folder / "checkpoint",
            "trigger": trigger,
            "security": "insecure",
            "http_listen": f"{HOST}:{port}",
        }
        return self._start(name, [str(FAIRLEAD), "ingest", "run", "--config", str(self._write(name, settings))])

    def _program(
        self, room: str, port: int, settings: Mapping[str, object], seconds: float = READY_SECONDS, name: str = ""
    ) -> None:
        name = name or room
        command = [str(FAIRLEAD), room, "run", "--config", str(self._write(name, settings))]
        self._ready(name, port, self._start(name, command), seconds)

    def _write(self, name: str, settings: Mapping[str, object]) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(toml(settings))
        return path

    def _environ(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FAIRLEAD_")}
        # The environment's proxies are for the world outside, never for loopback.
        return {**kept, "NO_PROXY": f"{HOST},localhost", "no_proxy": f"{HOST},localhost"}

    def _start(self, name: str, command: list[str], folder: Path | None = None) -> Running:
        log = self.logs / f"{name}.log"
        running = start(
            name, command, log, environ=self._environ(), folder=folder or self.folder, outlive=self._outlive
        )
        self.running[name] = running
        self._note()
        return running

    def _ready(self, name: str, port: int, running: Running, seconds: float) -> None:
        def ready() -> bool:
            running.require_alive()
            return get_text(port, "/readyz") != ""

        self._screen.wait(f"{name} is ready", ready, seconds=seconds, every=0.1, describe=running.tail)

    def _note(self) -> None:
        pids = {name: running.pid for name, running in self.running.items()}
        if self._cluster is not None:
            pids = {name: running.pid for name, running in self._cluster.running.items()} | pids
        self.record.write(pids)


def get_text(port: int, path: str, headers: Mapping[str, str] | None = None) -> str:
    """GET from loopback; raises AssertionError on any status but 200, OSError without an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except http.client.HTTPException as error:
        raise ConnectionError(f"port {port} broke off: {error!r}") from error
    finally:
        connection.close()
    assert answer.status == http.client.OK, f"GET {path} on port {port}: {answer.status} {text[:300]}"
    return text or "ok"
