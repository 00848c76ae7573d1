"""Join tokens as an administrator creates them: `fairlead token create` with the administrator's kubeconfig."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from e2e.story.cluster import Cluster

PROGRAM = Path(sys.executable).parent / "fairlead"
COMMAND_SECONDS = 120


def create(cluster: Cluster, folder: Path, node: str) -> str:
    """A token for this node; creates its Node if it is missing."""
    token: str = json.loads(ask(cluster, folder, "token", "create", "--node", node, "--create-node", "-o", "json"))[
        "token"
    ]
    return token


def ask(cluster: Cluster, folder: Path, *words: str) -> str:
    """Run `fairlead` with the administrator's kubeconfig; returns its output.  Raises AssertionError if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
    kubeconfig.chmod(0o600)
    done = run(*words, "--kubeconfig", str(kubeconfig))
    assert done.returncode == 0, f"fairlead {' '.join(words)} says: {done.stdout}{done.stderr}"
    return done.stdout


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run fairlead on this machine."""
    return subprocess.run(
        [str(PROGRAM), *arguments], input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
