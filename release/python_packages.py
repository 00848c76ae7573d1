"""Builds the wheel and the sdist."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from release import source
from release.source import ReleaseError, Source


def build(found: Source, target: Path) -> list[Path]:
    """Write both into ``target``; both are built from the staged tree."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        staged = source.stage(found, Path(folder) / f"fairlead-{found.version}")
        out = Path(folder) / "out"
        done = subprocess.run(
            # The build's own requirements are part of requirements/dev.lock, with hashes.
            [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", str(out), str(staged)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(found.epoch), "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise ReleaseError(f"building wheel and sdist failed: {(done.stdout + done.stderr).strip()[-800:]}")
        made = []
        for path in sorted(out.iterdir()):
            made.append(target / path.name)
            made[-1].write_bytes(path.read_bytes())
    return made
