"""A kind cluster for the story."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.node.node import CommandError

CONFIG = Path(__file__).resolve().parents[1] / "kind.yaml"
COMMAND_SECONDS = 960.0
CREATE_SECONDS = 600.0


class KindCluster:
    """One cluster with its own name; `up` creates and removes it."""

    storage_class: str | None = None
    """kind's default class makes volumes."""

    def __init__(self, name: str, folder: Path, assets: Path) -> None:
        self.name = name
        self.assets = assets
        self.environ = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "HELM_CACHE_HOME": str(folder / "helm"),
            "HELM_CONFIG_HOME": str(folder / "helm"),
            "HELM_DATA_HOME": str(folder / "helm"),
        }

    @property
    def node(self) -> str:
        """kind names its node after the cluster."""
        return f"{self.name}-control-plane"

    @property
    def address(self) -> str:
        """The node container's address, which the host reaches directly on Linux."""
        found = json.loads(self.kubectl("get", "node", self.node, "-o", "json"))
        internal = [each["address"] for each in found["status"]["addresses"] if each["type"] == "InternalIP"]
        return str(internal[0])

    def provide_volumes(self, names: Sequence[str]) -> None:
        """Nothing to do."""

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl; raises CommandError unless `check` is False."""
        return self.run(str(self.assets / "kubectl"), *arguments, stdin=stdin, check=check)

    def helm(self, *arguments: str) -> str:
        """Run helm; raises CommandError."""
        return self.run(str(self.assets / "helm"), *arguments)

    def kind(self, *arguments: str) -> str:
        """Run kind on this cluster; raises CommandError."""
        return self.run("kind", *arguments, "--name", self.name, seconds=CREATE_SECONDS)

    def run(self, *command: str, stdin: str = "", check: bool = True, seconds: float = COMMAND_SECONDS) -> str:
        """Run any program with this cluster's environment and return what it printed."""
        done = subprocess.run(command, env=self.environ, input=stdin, capture_output=True, text=True, timeout=seconds)
        if check and done.returncode != 0:
            raise CommandError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout


@contextmanager
def up(folder: Path, assets: Path) -> Iterator[KindCluster]:
    """A cluster for the length of a `with`."""
    cluster = KindCluster(f"fairlead-{secrets.token_hex(3)}", folder, assets)
    try:
        cluster.kind("create", "cluster", "--config", str(CONFIG), "--wait", "180s")
        yield cluster
    finally:
        cluster.kind("delete", "cluster")
