"""What this machine must have for a real node, and how to get it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.node import cgroups, programs

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
REQUIRED = "required"
APT_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One missing requirement: a sentence, and the Debian package that provides it (empty: none does)."""

    what: str
    package: str = ""


TOOLS: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "unshare": "util-linux",
    "mount": "mount",
}
"""Programs looked up on the PATH, and the package of each."""

FILES: Mapping[str, str] = {
    f"{programs.CNI_FOLDER}/bridge": "containernetworking-plugins",
    f"{programs.CNI_FOLDER}/host-local": "containernetworking-plugins",
    f"{programs.CNI_FOLDER}/portmap": "containernetworking-plugins",
    f"{programs.CNI_FOLDER}/loopback": "containernetworking-plugins",
}
"""Plugins that containerd gets by path."""


def required(environ: Mapping[str, str]) -> bool:
    """True when a skip counts as a failure (FAIRLEAD_E2E=required)."""
    return environ.get("FAIRLEAD_E2E") == REQUIRED


def may_install(environ: Mapping[str, str]) -> bool:
    """True where installing packages is expected: in continuous integration, or when the run is required."""
    return required(environ) or bool(environ.get("CI"))


def rights(home: Path) -> list[Lack]:
    """Missing rights in the kernel: root, namespaces, cgroups, overlayfs; `home` is where nodes keep their folders."""
    if os.geteuid() != 0:
        return [Lack(what="root (a kubelet makes cgroups, mounts and network links); run it as root")]
    lacks = []
    if not _may_unshare():
        lacks.append(Lack(what="the right to make mount, network and host name namespaces (CAP_SYS_ADMIN)"))
    if not os.access(cgroups.MOUNT, os.W_OK) or not (cgroups.unified() or (cgroups.MOUNT / "cpuset").is_dir()):
        lacks.append(Lack(what=f"cgroup hierarchies that can be written below {cgroups.MOUNT}"))
    if "overlay" not in Path("/proc/filesystems").read_text().split() and not _load_overlay():
        lacks.append(Lack(what="the overlay filesystem in this kernel"))
    if filesystem(home) == "overlay":
        lacks.append(
            Lack(what=f"a place for images: {home} is an overlay itself; set FAIRLEAD_E2E_HOME to a real disk")
        )
    return lacks


def filesystem(path: Path, mounts: str | None = None) -> str:
    """The type of the filesystem that holds `path` (which need not exist yet). `mounts` replaces /proc/self/mounts."""
    found = ("", "")
    for line in (mounts or Path("/proc/self/mounts").read_text()).splitlines():
        _, point, kind, *_ = line.split(" ")
        # The longest mount point wins, and of equals the last, which lies on top.
        if path.is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def _may_unshare() -> bool:
    child = os.fork()
    if child == 0:
        refused = ctypes.CDLL(None).unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET)
        os._exit(1 if refused else 0)
    return os.waitpid(child, 0)[1] == 0


def _load_overlay() -> bool:
    modprobe = shutil.which("modprobe")
    return modprobe is not None and subprocess.run([modprobe, "overlay"], capture_output=True).returncode == 0


def tools(path: str | None = None) -> list[Lack]:
    """Missing programs. `path` replaces PATH."""
    lacks = [Lack(what=tool, package=package) for tool, package in TOOLS.items() if not shutil.which(tool, path=path)]
    return lacks + [Lack(what=file, package=package) for file, package in FILES.items() if not Path(file).is_file()]


def remedy(lacks: list[Lack]) -> str:
    """One sentence: what is missing, and the command if packages provide it."""
    packages = sorted({lack.package for lack in lacks if lack.package})
    text = "missing: " + ", ".join(lack.what for lack in lacks)
    return f"{text}; on Debian: apt-get install {' '.join(packages)}" if packages else text


def install(lacks: list[Lack]) -> None:
    """apt-get the packages; raises OSError with the end of apt's output."""
    packages = sorted({lack.package for lack in lacks if lack.package})
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                ["apt-get", *command], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=APT_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise OSError(f"apt-get {command[0]} took more than {error.timeout:g} s") from None
        if done.returncode != 0:
            raise OSError(f"apt-get {' '.join(command)}: {done.stderr.strip()[-500:]}")


def prepare(environ: Mapping[str, str], home: Path) -> str:
    """Prepare the machine; returns why that is impossible (empty: it is ready)."""
    lacks = rights(home)
    if lacks:
        return remedy(lacks)
    lacks = tools()
    if lacks and may_install(environ) and shutil.which("apt-get"):
        install(lacks)
        lacks = tools()
    return remedy(lacks) if lacks else ""
