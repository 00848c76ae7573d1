"""python -m e2e.kind: the story on kind; `make e2e-kind` has already checked for kind and an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from e2e.controlplane import build as controlplane
from e2e.images import build as images
from e2e.images.layers import LayerError
from e2e.kind import cluster
from e2e.node.machine import required
from e2e.story.telling import Story

PROGRAMS = ("kubectl", "helm")
FIGURES = Path("artifacts/e2e-kind.json")
_began = time.monotonic()


def say(text: str) -> None:
    """One line of progress with the seconds since the start."""
    print(f"e2e-kind: {time.monotonic() - _began:6.1f} s  {text}", flush=True)


def engine_answers() -> bool:
    """True when docker or podman has an engine behind it."""
    for program in ("docker", "podman"):
        try:
            if subprocess.run([program, "info"], capture_output=True, timeout=30).returncode == 0:
                return True
        except (FileNotFoundError, subprocess.TimeoutExpired):
            continue  # Not this one.
    return False


def main() -> int:
    """Run as a program; see the module's docstring."""
    if not engine_answers():
        failed = required(os.environ)
        print(f"e2e-kind: {'failed' if failed else 'skipped'}: no container engine answers; start docker or podman")
        return 1 if failed else 0
    try:
        assets = controlplane.provide(PROGRAMS, os.environ)
        archives = images.provide()
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            with cluster.up(folder, assets) as running:
                say(f"{running.name} is up")
                for room in images.ROOMS:
                    running.kind("load", "image-archive", str(archives[room]))
                say("images loaded")
                telling = Story(running, folder, say)
                telling.tell()
    except (controlplane.BuildError, LayerError, AssertionError, OSError) as error:
        print(f"e2e-kind: failed: {error}", flush=True)
        return 1
    figures = {"seconds": round(time.monotonic() - _began, 1), **telling.figures}
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print("e2e-kind: ok " + " ".join(f"{name}={value:g}" for name, value in figures.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
