"""Where the Kubernetes programs are: one call that builds what is missing, once."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILDER = ROOT / "e2e" / "controlplane" / "build.py"


class NoControlPlane(RuntimeError):
    """The programs are neither there nor buildable; the text says what to install."""


@functools.cache
def assets(*programs: str) -> Path:
    """The folder with `programs` (none named: the default four). Minutes when cold, milliseconds when warm."""
    done = subprocess.run(
        [sys.executable, str(BUILDER), *programs], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise NoControlPlane("the control plane could not be built; `make control-plane` says why and what to install")
    return Path(done.stdout.strip().splitlines()[-1])
