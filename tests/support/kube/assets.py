"""The folder of the Kubernetes programs; builds what is missing, once."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILDER = ROOT / "e2e" / "controlplane" / "build.py"


class NoControlPlane(RuntimeError):
    """The programs are missing and cannot be built; the text says what to install."""


@functools.cache
def assets(*programs: str) -> Path:
    """The folder with `programs` (default: four of them). Takes minutes the first time, then milliseconds."""
    done = subprocess.run(
        [sys.executable, str(BUILDER), *programs], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise NoControlPlane("the control plane could not be built; `make control-plane` says why and what to install")
    return Path(done.stdout.strip().splitlines()[-1])
