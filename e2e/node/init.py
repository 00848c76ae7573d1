"""Pid 1 of the node's namespaces: sets up mounts and network, starts programs, and ends when one of them ends.

Run by `node.py` as `unshare … python -m e2e.node.init FOLDER ASSETS`. Nothing here reaches the host's filesystem:
/run, /var/log and /var/lib belong to the namespace, and kubelet finds its sysctls already set.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.node import programs
from e2e.node.link import ip
from e2e.node.plan import Plan

TMPFS = ("/run", "/var/log", "/var/lib")
RESTARTED = ("kubelet",)
"""What nodes start again by themselves, and the story ends on purpose."""
WAIT_SECONDS = 240.0
OFFLINE = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
"""Taken out of the programs' environment: everything they ask is on this machine."""


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Poll until true; an OSError means "not yet". Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass  # It is still coming up; the deadline decides.
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {WAIT_SECONDS:g} s")


def mount() -> None:
    """A filesystem view of the node's own."""
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    for folder in TMPFS:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    for folder in ("/run/lock", "/run/netns", "/run/sysctl"):
        Path(folder).mkdir(parents=True)
    for name, value in programs.SYSCTLS.items():
        stand_in = Path("/run/sysctl") / name.replace("/", "_")
        stand_in.write_text(f"{value}\n")
        subprocess.run(["mount", "--bind", str(stand_in), f"/proc/sys/{name}"], check=True)


def network(plan: Plan) -> None:
    """Wait for our end of the veth, then name it eth0 and forward for Pods."""
    # Not /sys, which still shows the host's links; the kernel's own list is this namespace's.
    wait_for("the veth", lambda: plan.peer in [name for _, name in socket.if_nameindex()])
    ip("link", "set", "lo", "up")
    ip("link", "set", plan.peer, "name", "eth0")
    ip("addr", "add", f"{plan.address}/30", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", plan.host_address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def api_ready(plan: Plan) -> bool:
    """True when the API server says so."""
    context = ssl.create_default_context(cafile=str(plan.pki / "ca.crt"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(f"{plan.api}/readyz", timeout=2) as answer:
        return bool(answer.status == 200)


def start(plan: Plan, commands: Mapping[str, list[str]]) -> dict[str, subprocess.Popen[bytes]]:
    """Start programs, each with its own log."""
    environ = {key: value for key, value in os.environ.items() if key not in OFFLINE}
    started = {}
    for name, command in commands.items():
        with (plan.logs / f"{name}.log").open("ab") as log:
            started[name] = subprocess.Popen(
                command, cwd=plan.folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
    return started


def watch(running: Mapping[str, subprocess.Popen[bytes]], restart: Callable[[str], subprocess.Popen[bytes]]) -> int:
    """Reap processes; return 1 when one of our programs ends that no service manager would restart."""
    names = {process.pid: name for name, process in running.items()}
    while True:
        pid, status = os.wait()
        if names.get(pid) in RESTARTED:
            name = names.pop(pid)
            print(f"{name} ended with {os.waitstatus_to_exitcode(status)}; it is started again", flush=True)
            names[restart(name).pid] = name
        elif pid in names:
            print(f"{names[pid]} ended with {os.waitstatus_to_exitcode(status)}; the node ends", flush=True)
            return 1


def main(folder: str, assets: str) -> int:
    """Run as a program; see the module's docstring."""
    plan = Plan.read(Path(folder))
    mount()
    socket.sethostname(plan.name)
    network(plan)
    running = start(plan, programs.first(plan, Path(assets)))
    wait_for("the API server", lambda: api_ready(plan))
    running |= start(plan, programs.second(plan, Path(assets)))
    # A pid 1 without a handler ignores SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return watch(running, lambda name: start(plan, {name: programs.second(plan, Path(assets))[name]})[name])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
