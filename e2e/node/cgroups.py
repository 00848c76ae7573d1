"""The node's own cgroup root, in every v1 hierarchy or in the unified one."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
UNIFIED_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
GONE_SECONDS = 60.0


def unified(mount: Path = MOUNT) -> bool:
    """True on cgroup v2."""
    return (mount / "cgroup.controllers").exists()


def make(name: str, mount: Path = MOUNT) -> None:
    """Create the root; kubelet makes everything below it. Raises OSError where the machine does not allow it."""
    if unified(mount):
        appended = (mount / "cgroup.controllers").read_text().split()
        for controller in UNIFIED_CONTROLLERS:
            if controller in appended:
                (mount / "cgroup.subtree_control").write_text(f"+{controller}")
        (mount / name).mkdir(exist_ok=True)
        return
    for controller in CONTROLLERS:
        if (mount / controller).is_dir():
            (mount / controller / name).mkdir(exist_ok=True)
    # A new cpuset is empty, and a process may not enter an empty one.
    for file in ("cpuset.cpus", "cpuset.mems"):
        (mount / "cpuset" / name / file).write_text((mount / "cpuset" / file).read_text())


def roots(name: str, mount: Path = MOUNT) -> list[Path]:
    """Every folder of this name that exists now."""
    return [path for path in (mount / name, *mount.glob(f"*/{name}")) if path.is_dir()]


def remove(name: str, mount: Path = MOUNT) -> None:
    """Remove the root and all below it; waits for the kernel to forget dead processes. Safe when there is none."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := roots(name, mount):
        for root in left:
            _remove(root)
        if not roots(name, mount):
            return
        if time.monotonic() > deadline:
            raise OSError(f"cgroups still in use: {', '.join(map(str, left))}")
        time.sleep(0.05)


def _remove(folder: Path) -> None:
    for child in folder.iterdir():
        if child.is_dir():
            _remove(child)
    # EBUSY while a killed process is still being buried: the caller comes back.
    with contextlib.suppress(OSError):
        folder.rmdir()
