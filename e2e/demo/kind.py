"""`make up KIND=1`: a kind cluster for the local stack, on machines with a container engine.

The programs run next to it as they do next to our own control plane; only the Kubernetes API is kind's, with a real
scheduler and a real kubelet.  `make down` deletes the cluster.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

NAME = "fairlead-up"
FILE = "kind-kubeconfig"
CREATE_SECONDS = 600.0
REMEDY = "install kind (go install sigs.k8s.io/kind@latest), or leave KIND=1 away"


class NoKind(Exception):
    """kind or its engine is missing; the text is one sentence with what to do."""


def provide(folder: Path) -> Path:
    """Create the cluster unless it exists, and return its kubeconfig in `folder`.  Raises NoKind."""
    if shutil.which("kind") is None:
        raise NoKind(f"KIND=1 needs kind and found none; {REMEDY}")
    kubeconfig = folder / FILE
    if NAME in _kind("get", "clusters").split():
        _kind("export", "kubeconfig", "--name", NAME, "--kubeconfig", str(kubeconfig))
    else:
        _kind("create", "cluster", "--name", NAME, "--kubeconfig", str(kubeconfig), "--wait", "180s")
    return kubeconfig


def remove(folder: Path) -> bool:
    """Delete the cluster that `provide` left; False when there is none."""
    if not (folder / FILE).exists():
        return False
    _kind("delete", "cluster", "--name", NAME, "--kubeconfig", str(folder / FILE))
    (folder / FILE).unlink(missing_ok=True)
    return True


def _kind(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["kind", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CREATE_SECONDS
        )
    except FileNotFoundError as error:
        raise NoKind(f"KIND=1 needs kind and found none; {REMEDY}") from error
    except subprocess.TimeoutExpired as error:
        raise NoKind(f"kind {' '.join(arguments)} took more than {CREATE_SECONDS:g} s; see kind export logs") from error
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoKind(f"kind {' '.join(arguments)} failed: {why}; is a container engine (docker, podman) running?")
    return done.stdout
