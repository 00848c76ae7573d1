"""Processes of a node as the host sees them: below its pid 1, in their own namespaces, with pids of the host."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")


def matching(wanted: Callable[[list[str], str], bool]) -> Iterator[int]:
    """Pids by command line and the text of their cgroups; one that ends meanwhile is none."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            cgroups = (entry / "cgroup").read_text()
        except OSError:
            continue
        if wanted(command, cgroups):
            yield int(entry.name)


def kill_containers(pod_uid: str) -> int:
    """kill -9 of every process of a Pod, but of the one that holds its namespaces; how many there were."""
    pids = list(matching(lambda command, cgroups: pod_uid in cgroups and command[:1] != ["/pause"]))
    for pid in pids:
        _kill(pid)
    return len(pids)


def kill_program(program: Path, folder: Path) -> list[int]:
    """kill -9 of a node's own program, by its path and the node's folder in its arguments; their pids."""
    pids = list(
        matching(lambda command, _: command[:1] == [str(program)] and any(str(folder) in each for each in command))
    )
    for pid in pids:
        _kill(pid)
    return pids


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # It went by itself, or with the first of its Pod.
