"""Packs the tree with dpkg-deb."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from release.deb import tree
from release.source import ReleaseError, Source


def build(source: Source, target: Path, *, version: str = "") -> Path:
    """Write the package; a ``version`` other than the source's is for testing upgrades."""
    for program, package in (("dpkg-deb", "dpkg"), ("strip", "binutils")):
        if shutil.which(program) is None:
            raise ReleaseError(f"the package for Debian needs {program}; install {package} and try again")
    version = version or source.version
    made = target / f"{tree.NAME}_{tree.debian_version(version)}_{tree.architecture()}.deb"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        tree.fill(source, root, version=version)
        tree.sums(root)
        # One thread: how many there are would change how the compressor cuts its blocks.
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", str(root), str(made)]
        environ = {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch)}
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise ReleaseError(f"dpkg-deb failed: {(done.stdout + done.stderr).strip()[-500:]}")
    return made
