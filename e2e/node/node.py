"""One node: start, stop, and everything that the story needs in between."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from e2e.node import cgroups, janitor, link, processes, programs
from e2e.node.plan import SLOTS, Plan
from tests.support.joining.pki import PRIVATE_MODE, Authority, service_account_keys
from tests.support.processes import Running, start, wait_until

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
FOLDER_MODE = 0o700
UP_SECONDS = 300.0
DEAD_SECONDS = 120.0
COMMAND_SECONDS = 960.0
LOGS_ON_FAILURE = ("init", "containerd", "kube-apiserver", "kubelet")


class CommandError(AssertionError):
    """A program of the cluster ended with an error; the text holds the command and what it said."""


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where nodes keep their folders: FAIRLEAD_E2E_HOME, or `fairlead-e2e` below the temporary folder."""
    return Path(environ.get("FAIRLEAD_E2E_HOME") or Path(tempfile.gettempdir()) / "fairlead-e2e").absolute()


def found(base: Path) -> list[Plan]:
    """Every node that has a folder below `base`, alive or not."""
    return [Plan.read(path.parent) for path in sorted(base.glob("*/plan.json"))]


def init_pid(plan: Plan) -> int:
    """Host's pid of the node's pid 1, 0 when it is not running. Checked by command line: pids are used again."""
    file = plan.folder / "init.pid"
    pid = int(file.read_text()) if file.exists() else 0
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes() if pid else b""
    except OSError:
        return 0
    return pid if str(plan.folder).encode() in command else 0


def owned(plan: Plan) -> bool:
    """True while the harness that will remove it is alive."""
    file = plan.folder / "owner.pid"
    return file.exists() and Path("/proc", file.read_text(), "stat").exists()


def claim(base: Path) -> Plan:
    """A free slot and its folder; raises OSError when all are taken."""
    base.mkdir(parents=True, exist_ok=True)
    for slot in range(SLOTS):
        plan = Plan(slot=slot, folder=base / f"{slot}-{secrets.token_hex(3)}")
        if link.claim(plan):
            plan.folder.mkdir(mode=FOLDER_MODE)
            (plan.folder / "owner.pid").write_text(str(os.getpid()))
            plan.save()
            return plan
    raise OSError(f"all {SLOTS} slots are taken; `python -m e2e.node status` shows them, `down` frees them")


def remove(folder: Path) -> None:
    """Remove a node in any state. Safe to repeat, also from several processes."""
    try:
        plan = Plan.read(folder)
    except FileNotFoundError:
        return
    if pid := init_pid(plan):
        os.kill(pid, signal.SIGKILL)
        wait_until("the node's pid 1 is gone", lambda: not init_pid(plan), seconds=DEAD_SECONDS)
    link.remove(plan)
    cgroups.remove(plan.cgroup)
    shutil.rmtree(folder)


def sweep(base: Path) -> list[str]:
    """Remove every node that neither runs nor has a living harness; returns their names."""
    stale = [plan for plan in found(base) if not init_pid(plan) and not owned(plan)]
    for plan in stale:
        remove(plan.folder)
    return [plan.name for plan in stale]


class Node:
    """A node in its folder: start it, ask it, stop it. `up` does the first and the last."""

    def __init__(self, plan: Plan, assets: Path) -> None:
        self.plan = plan
        self.assets = assets
        self._running: Running | None = None
        self._janitor: subprocess.Popen[bytes] | None = None

    @property
    def node(self) -> str:
        """Its name in the cluster."""
        return self.plan.name

    @property
    def address(self) -> str:
        """Where the host reaches NodePorts."""
        return self.plan.address

    @property
    def storage_class(self) -> str:
        """None: volumes are made by hand."""
        return ""

    @property
    def kubeconfig(self) -> Path:
        """For administrators."""
        return self.plan.kubeconfig("admin")

    @property
    def environ(self) -> dict[str, str]:
        """An environment for kubectl, helm and whatever else asks this cluster; their caches stay in its folder."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": f"{self.plan.folder}/kubectl",
            "HELM_CACHE_HOME": f"{self.plan.folder}/helm",
            "HELM_CONFIG_HOME": f"{self.plan.folder}/helm",
            "HELM_DATA_HOME": f"{self.plan.folder}/helm",
            "NO_PROXY": "*",
        }

    def start(self, *, outlive: bool) -> None:
        """Bring it up; returns when the node is Ready. Raises Unmet with the logs' tails.

        Unless `outlive`, it dies with this process, and a janitor removes what it leaves behind.
        """
        plan = self.plan
        if not outlive:
            self._janitor = janitor.start(plan.folder)
        self._write_files()
        cgroups.make(plan.cgroup)
        self._running = start(
            "node",
            [
                "unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc",
                sys.executable, "-m", "e2e.node.init", str(plan.folder), str(self.assets),
            ],
            plan.logs / "init.log",
            folder=ROOT,
            outlive=outlive,
        )  # fmt: skip
        children = Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children")
        pid = self._await("pid 1 runs", lambda: children.read_text().split())[0]
        (plan.folder / "init.pid").write_text(pid)
        link.join(plan, int(pid))
        self._await("the API server is ready", lambda: self.kubectl("get", "--raw", "/readyz") == "ok")
        self._await("the node is Ready", self._is_ready)
        if outlive:
            (plan.folder / "owner.pid").unlink()

    def stop(self) -> None:
        """Stop it and remove everything it left on the machine. Safe to repeat."""
        remove(self.plan.folder)
        if self._running:
            self._running.kill()
        if self._janitor:
            self._janitor.communicate()

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl as administrator; raises CommandError unless `check` is False."""
        return self.run(str(self.assets / "kubectl"), *arguments, stdin=stdin, check=check)

    def helm(self, *arguments: str) -> str:
        """Run helm as administrator; raises CommandError."""
        return self.run(str(self.assets / "helm"), *arguments)

    def load(self, image: Path) -> None:
        """Import an image archive into containerd, where Pods with `imagePullPolicy: Never` find it."""
        self.run(
            "ctr",
            "--address",
            str(self.plan.containerd_socket),
            "--namespace",
            "k8s.io",
            "images",
            "import",
            str(image),
        )

    def provide_volumes(self, names: Sequence[str]) -> None:
        """One local PersistentVolume each, in the node's folder."""
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.node]}
        for name in names:
            folder = self.plan.folder / "volumes" / name
            folder.mkdir(parents=True)
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "",
                    "local": {"path": str(folder)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
                },
            }
            self.kubectl("apply", "-f", "-", stdin=json.dumps(volume))

    @property
    def host_address(self) -> str:
        """This machine, as Pods see it."""
        return self.plan.host_address

    def kill_containers(self, pod_uid: str) -> int:
        """kill -9 of all processes of a Pod, but of the one that holds its namespaces; how many there were."""
        return processes.kill_containers(pod_uid)

    def kill_kubelet(self) -> None:
        """kill -9; pid 1 starts it again."""
        found = processes.kill_program(self.assets / "kubelet", self.plan.folder)
        assert len(found) == 1, f"one kubelet expected, killed {found}"

    def run(self, *command: str, stdin: str = "", check: bool = True) -> str:
        """Run any program with this cluster's environment and return what it printed."""
        shown = f"{Path(command[0]).name} {' '.join(command[1:])}"
        try:
            done = subprocess.run(
                command, env=self.environ, input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{shown} took more than {error.timeout:g} s") from None
        if check and done.returncode != 0:
            said = f"{done.stdout.strip()[-2000:]}\n{done.stderr.strip()[-2000:]}".strip()
            raise CommandError(f"{shown} exited with {done.returncode}: {said}")
        return done.stdout

    def tails(self) -> str:
        """The end of the logs that usually show the cause."""
        texts = []
        for name in LOGS_ON_FAILURE:
            log = self.plan.logs / f"{name}.log"
            if log.exists():
                texts.append("\n".join([f"--- end of {log}", *log.read_text(errors="replace").splitlines()[-12:]]))
        return "\n".join(texts)

    def _await(self, what: str, condition: Callable[[], T]) -> T:
        def alive_and() -> T:
            assert self._running is not None
            self._running.require_alive()
            return condition()

        return wait_until(what, alive_and, seconds=UP_SECONDS, describe=self.tails)

    def _is_ready(self) -> bool:
        path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self.kubectl("get", "node", self.plan.name, "-o", path) == "True"

    def _write_files(self) -> None:
        plan = self.plan
        authority = Authority(plan.pki, f"fairlead {plan.name}")
        authority.issue(
            "apiserver",
            hosts=(
                plan.address, "127.0.0.1", plan.kubernetes_address, "localhost", "kubernetes", "kubernetes.default",
                "kubernetes.default.svc", f"kubernetes.default.svc.{programs.CLUSTER_DOMAIN}",
            ),
        )  # fmt: skip
        service_account_keys(plan.pki)
        plan.logs.mkdir()
        tokens = {user: secrets.token_hex(16) for user in programs.USERS}
        for name, text in programs.files(plan, tokens, authority.certificate).items():
            path = plan.folder / name
            path.parent.mkdir(exist_ok=True)
            path.touch(mode=PRIVATE_MODE)
            path.write_text(text)


@contextmanager
def up(assets: Path, base: Path) -> Iterator[Node]:
    """A node during a `with` block; leftovers of earlier runs are removed first."""
    sweep(base)
    node = Node(claim(base), assets)
    try:
        node.start(outlive=False)
        yield node
    finally:
        node.stop()
