"""A real Kubernetes API in a folder: etcd, kube-apiserver and three controllers, ready in about two seconds.

    Cluster(folder).start()
        etcd ◄── kube-apiserver ◄── kube-controller-manager (namespaces, garbage collection, service accounts)
                     ▲
                     └── kubeconfig, kubectl(), apply()

Nothing runs Pods: create Nodes, and Pods with `nodeName`, yourself. Everything listens on loopback, on ports the
cluster keeps over restarts; its programs end with the process that started them, even if that is killed.
"""

from __future__ import annotations

import atexit
import datetime
import json
import secrets
import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.joining.pki import PRIVATE_MODE, Authority, service_account_keys
from tests.support.kube import leftovers
from tests.support.kube.assets import assets
from tests.support.kube.kubernetes import Kubernetes
from tests.support.kube.leftovers import Stored
from tests.support.processes import Running, Unmet, free_ports, start, wait_until

HOST = "127.0.0.1"
ADVERTISED = "192.0.2.1"
"""In the Endpoints of the kubernetes Service, where loopback is refused; reserved for examples, never in use."""
WITHOUT_CONTROLLERS = ("etcd", "kube-apiserver", "kubectl")
CONTROLLERS = "namespace-controller,garbage-collector-controller,serviceaccount-controller"
PORT_ATTEMPTS = 5
READY_SECONDS = 100.0
LONG = datetime.timedelta(days=800)
ETCD_SERVES = "serving client traffic"
NAMESPACES = "/api/v1/namespaces"


class Cluster(Kubernetes):
    """One control plane of our own; `start()` it, use it, `stop()` it (or use it as a context manager)."""

    def __init__(
        self,
        folder: Path,
        *,
        outlive: bool = False,
        controllers: bool = True,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """State, certificates, kubeconfig and logs go below `folder`.

        `outlive` leaves it running when the calling process ends; `on_change` is called after every start of a program.
        Without `controllers` no namespace ends and nothing is garbage collected, and one program less is needed.
        """
        super().__init__(folder / "kubeconfig")
        self.folder = folder
        self.ca = folder / "pki" / "ca.crt"
        self.token = secrets.token_hex(16)
        self.running: dict[str, Running] = {}
        self.server = ""
        self._outlive = outlive
        self._controllers = controllers
        self._on_change = on_change
        self._etcd_ports = (0, 0)
        self._port = 0

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Cluster:
        """Bring everything up and wait until the API server is ready; raises Unmet with the log's tail."""
        self.assets = assets(*(() if self._controllers else WITHOUT_CONTROLLERS))
        if not self._outlive:
            atexit.register(self.stop)
        self._write_credentials()
        for attempt in range(1, PORT_ATTEMPTS + 1):
            client, peer, self._port = free_ports(3)
            self._etcd_ports = (client, peer)
            self.server = f"https://{HOST}:{self._port}"
            try:
                self._start_etcd()
                self._start_apiserver()
                break
            except Unmet:
                # A port may have gone to another program between looking and binding; a program that lives on is at
                # fault for another reason, and so is the last attempt.
                ended = any(not running.alive for running in self.running.values())
                self.stop()
                if attempt == PORT_ATTEMPTS or not ended:
                    raise
        self._write_kubeconfig()
        if self._controllers:
            self._start_controllers()
        wait_until(
            "the default namespace exists",
            lambda: self.get("/api/v1/namespaces/default")["metadata"]["name"],
            seconds=READY_SECONDS,
            describe=self.tails,
        )
        return self

    def stop(self) -> None:
        """Stop every program, clients first. Safe to call twice."""
        for name in reversed(list(self.running)):
            self.running.pop(name).kill()

    def tails(self) -> str:
        """The end of every program's log, for failure texts."""
        return "\n".join(running.tail() for running in self.running.values())

    # --- use

    def get(self, path: str) -> dict[str, Any]:
        """GET a path of the API over HTTP and decode it; raises OSError (urllib's) with the status."""
        answer: dict[str, Any] = json.loads(self._read(path))
        return answer

    def stored(self) -> Stored:
        """What is stored in etcd now; takes about 10 ms."""
        # First the namespaces: one that ends after this question is known to end, or is not there any more.
        namespaces = {each["metadata"]["name"]: each["status"]["phase"] for each in self.get(NAMESPACES)["items"]}
        request = urllib.request.Request(f"http://{HOST}:{self._etcd_ports[0]}/v3/kv/range", leftovers.question())
        with _without_proxy().open(request, timeout=20) as answer:
            return leftovers.answer(answer.read(), namespaces)

    def restart_apiserver(self) -> None:
        """kill -9 the API server and start it on the same port; returns when it is ready (about 2 s)."""
        self.kill_apiserver()
        self._start_apiserver()

    def kill_apiserver(self) -> None:
        """Kill the API server with -9 (SIGTERM waits 20 s for open watches) until `restart_apiserver`."""
        running = self.running.pop("kube-apiserver", None)
        if running is not None:
            running.kill()

    def restart_etcd(self) -> None:
        """kill -9 etcd and start it on the same data and ports; returns when it serves."""
        self.running.pop("etcd").kill()
        self._start_etcd()

    # --- starting

    def _write_credentials(self) -> None:
        # Valid for long in both directions: tests move the clocks of those who speak with it.
        authority = Authority(self.folder / "pki", "fairlead cluster", valid=LONG, age=LONG)
        begins = datetime.datetime.now(datetime.UTC) - LONG
        hosts = (HOST, "localhost", "kubernetes.default.svc")
        self._serving = authority.issue("apiserver", hosts=hosts, valid=LONG, begins=begins)
        self._accounts = service_account_keys(self.folder / "pki")
        self._tokens = self.folder / "pki" / "tokens.csv"
        self._tokens.touch(mode=PRIVATE_MODE)
        self._tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        self._tls = ssl.create_default_context(cafile=str(self.ca))

    def _write_kubeconfig(self) -> None:
        self.kubeconfig.touch(mode=PRIVATE_MODE)
        self.kubeconfig.write_text(json.dumps(self.config(self.token), indent=1))

    def config(self, token: str) -> dict[str, Any]:
        """A kubeconfig (as a dict; JSON is YAML) for this cluster and any bearer token."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "fairlead", "cluster": {"server": self.server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "fairlead", "context": {"cluster": "fairlead", "user": "user"}}],
            "current-context": "fairlead",
        }

    def _launch(self, name: str, *flags: str) -> Running:
        log = self.folder / "logs" / f"{name}.log"
        running = start(name, [str(self.assets / name), *flags], log, outlive=self._outlive)
        self.running[name] = running
        self._on_change()
        return running

    def _await(self, running: Running, what: str, condition: Callable[[], bool]) -> None:
        def ready() -> bool:
            running.require_alive()
            return condition()

        wait_until(what, ready, seconds=READY_SECONDS, describe=running.tail)

    def _start_etcd(self) -> None:
        client, peer = (f"http://{HOST}:{port}" for port in self._etcd_ports)
        log = self.folder / "logs" / "etcd.log"
        before = log.stat().st_size if log.exists() else 0
        running = self._launch(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        # Its own log, not its port: another etcd might answer on a port that was lost in a race.
        self._await(running, "etcd serves", lambda: ETCD_SERVES in log.read_bytes()[before:].decode(errors="replace"))

    def _start_apiserver(self) -> None:
        running = self._launch(
            "kube-apiserver",
            f"--etcd-servers=http://{HOST}:{self._etcd_ports[0]}",
            f"--bind-address={HOST}",
            f"--advertise-address={ADVERTISED}",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--cert-dir={self.folder / 'pki'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._accounts.certificate}",
            f"--service-account-signing-key-file={self._accounts.key}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        )
        self._await(running, "kube-apiserver is ready", self._is_ready)

    def _start_controllers(self) -> None:
        self._launch(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={CONTROLLERS}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        )

    # --- asking

    def _read(self, path: str) -> bytes:
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {self.token}"})
        with _without_proxy(urllib.request.HTTPSHandler(context=self._tls)).open(request, timeout=20) as answer:
            body: bytes = answer.read()
        return body

    def _is_ready(self) -> bool:
        return self._read("/readyz") == b"ok"


def _without_proxy(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """A proxy from the environment must never be used for loopback."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
