"""Finds traces that a node left on the machine: checks that `down` leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from e2e.node import cgroups, programs
from e2e.node.plan import Plan


def sysctls() -> Mapping[str, str]:
    """The machine's values of the sysctls that kubelet would change."""
    return {name: Path("/proc/sys", name).read_text().strip() for name in programs.SYSCTLS}


def left(plan: Plan) -> list[str]:
    """One sentence for each trace of the node that is still there."""
    found = [f"cgroup {path}" for path in cgroups.roots(plan.cgroup)]
    alias = Path("/sys/class/net", plan.link, "ifalias")
    if alias.exists() and alias.read_text().strip() == plan.token:
        found.append(f"network link {plan.link}")
    if plan.folder.exists():
        found.append(f"folder {plan.folder}")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line.split()[1]}" for line in mounts if f"{plan.folder}/" in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # It ended while we looked.
        if f"{plan.folder}/" in command:
            found.append(f"process {process.name}: {command[:120]}")
    return found
