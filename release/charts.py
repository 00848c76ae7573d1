"""The charts as archives that Helm installs."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import yaml

from release import source
from release.source import ReleaseError, Source

CHARTS = ("fairlead", "fairlead-edge")


def build(found: Source, target: Path) -> list[Path]:
    """Write both charts; ``helm package`` is not used because it would include today's time."""
    target.mkdir(parents=True, exist_ok=True)
    return [_archive(found, name, target) for name in CHARTS]


def _archive(found: Source, name: str, target: Path) -> Path:
    folder = Path("charts") / name
    described = yaml.safe_load((found.root / folder / "Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        if described[key] != found.version:
            raise ReleaseError(
                f"{folder}/Chart.yaml: {key} is {described[key]}, pyproject.toml says {found.version}; write that"
            )
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in source.tracked(found.root):
            if folder not in path.parents or path.name.startswith("."):
                continue
            info = tarfile.TarInfo(f"{name}/{path.relative_to(folder)}")
            body = (found.root / path).read_bytes()
            info.size, info.mtime, info.mode = len(body), found.epoch, 0o644
            tar.addfile(info, io.BytesIO(body))
    made = target / f"{name}-{found.version}.tgz"
    made.write_bytes(gzip.compress(content.getvalue(), compresslevel=9, mtime=found.epoch))
    return made
