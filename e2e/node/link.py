"""The veth pair between the host and the node.

Creating a link fails if its name is taken: this claims a slot without a lock file that could become stale.
The pair goes with the node's network namespace, so a dead node frees its slot by itself. The alias names its owner.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.node.plan import Plan


class LinkError(OSError):
    """`ip` refused; the text is what it said."""


def ip(*arguments: str) -> None:
    """Run `ip`; raises LinkError with what it said."""
    done = subprocess.run(["ip", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise LinkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def claim(plan: Plan) -> bool:
    """Make the pair; False when the slot is taken."""
    try:
        ip("link", "add", plan.link, "type", "veth", "peer", "name", plan.peer)
    except LinkError as error:
        if "File exists" in str(error):
            return False
        raise
    ip("link", "set", plan.link, "alias", plan.token)
    return True


def join(plan: Plan, init: int) -> None:
    """Give the host its address and the node its end; routes to Pods and Services lead through the node."""
    ip("addr", "add", f"{plan.host_address}/30", "dev", plan.link)
    ip("link", "set", plan.link, "up")
    ip("link", "set", plan.peer, "netns", str(init))
    for network in (plan.pods, plan.services):
        ip("route", "add", network, "via", plan.address)


def remove(plan: Plan) -> None:
    """Take the pair away, with its routes, if it is (still) this node's. Safe when there is none."""
    try:
        if Path(f"/sys/class/net/{plan.link}/ifalias").read_text().strip() == plan.token:
            ip("link", "del", plan.link)
    except FileNotFoundError:
        return  # The kernel took it with the namespace.
    except LinkError as error:
        if "Cannot find device" not in str(error):
            raise
