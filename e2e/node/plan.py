"""Names and addresses of one node: what must be unique on the machine comes from its slot and its folder's name.

The slot is used again as soon as it is free, the folder's name never: cleaning up behind a dead node cannot hit
the living one that took its slot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

SLOTS = 32
"""How many nodes may live beside each other on one machine."""

API_PORT = 6443
SOCKET_PATH_MAX = 107
"""Longest path a Unix socket may have (sockaddr_un)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One node: `slot` (0 to SLOTS-1) and the folder that holds its state; the rest follows."""

    slot: int
    folder: Path

    def __post_init__(self) -> None:
        if not 0 <= self.slot < SLOTS:
            raise ValueError(f"slot {self.slot} is not one of 0 to {SLOTS - 1}")
        if len(str(self.containerd_socket)) > SOCKET_PATH_MAX:
            raise ValueError(f"{self.folder} is too long a path for a socket; set FAIRLEAD_E2E_HOME to a shorter one")

    @property
    def name(self) -> str:
        """The node's name in the cluster and on the machine."""
        return f"fairlead{self.slot}"

    @property
    def token(self) -> str:
        """What distinguishes this node from every other that ever had its slot."""
        return self.folder.name

    @property
    def cgroup(self) -> str:
        """Its root below every cgroup hierarchy."""
        return f"fairlead-e2e-{self.token}"

    @property
    def link(self) -> str:
        """The host's end of the veth pair."""
        return f"fl{self.slot}"

    @property
    def peer(self) -> str:
        """The node's end, before it is named eth0."""
        return f"fl{self.slot}p"

    @property
    def host_address(self) -> str:
        """The host as Pods see it."""
        return f"10.231.{self.slot}.1"

    @property
    def address(self) -> str:
        """The node as the host sees it: API server, NodePorts, DNS."""
        return f"10.231.{self.slot}.2"

    @property
    def pods(self) -> str:
        """Pod addresses."""
        return f"10.232.{self.slot}.0/24"

    @property
    def services(self) -> str:
        """Service addresses."""
        return f"10.233.{self.slot}.0/24"

    @property
    def kubernetes_address(self) -> str:
        """The Service `kubernetes`: first of the range."""
        return f"10.233.{self.slot}.1"

    @property
    def api(self) -> str:
        """The API server's URL, from host and node alike."""
        return f"https://{self.address}:{API_PORT}"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens; a path, so it can be reached from outside the namespaces."""
        return self.folder / "containerd.sock"

    @property
    def logs(self) -> Path:
        """One log a program."""
        return self.folder / "log"

    @property
    def pki(self) -> Path:
        """Certificates, service account keys, tokens."""
        return self.folder / "pki"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of `admin`, `node`, `scheduler`, `controllers` or `proxy`."""
        return self.folder / f"{user}.kubeconfig"

    def save(self) -> None:
        """Write `plan.json` into the folder, so that another process can find the node again."""
        (self.folder / "plan.json").write_text(json.dumps({"slot": self.slot}))

    @staticmethod
    def read(folder: Path) -> Plan:
        """The plan of a folder; raises FileNotFoundError where there is none."""
        return Plan(slot=int(json.loads((folder / "plan.json").read_text())["slot"]), folder=folder)
