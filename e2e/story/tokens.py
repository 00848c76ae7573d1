"""Join tokens as an administrator makes them: `fairlead token create` with the administrator's kubeconfig."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from e2e.story.cluster import Cluster

PROGRAM = Path(sys.executable).parent / "fairlead"
COMMAND_SECONDS = 120


def create(cluster: Cluster, folder: Path, node: str) -> str:
    """A token for this node, whose Node object is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
    kubeconfig.chmod(0o600)
    command = ["token", "create", "--kubeconfig", str(kubeconfig), "--node", node, "--create-node", "-o", "json"]
    done = run(*command)
    assert done.returncode == 0, f"fairlead {' '.join(command)} says: {done.stderr}"
    token: str = json.loads(done.stdout)["token"]
    return token


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run fairlead on this machine."""
    return subprocess.run(
        [str(PROGRAM), *arguments], input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
