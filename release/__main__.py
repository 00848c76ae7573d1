#!/usr/bin/env python3
"""Build the files of a release in a folder.

    python -m release                wheel, sdist, package for Debian, charts
    python -m release --images       and the images (2.1 GB)

Progress goes to standard error; standard output has one line a file: name, bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from release import charts, images, provenance, python_packages, sbom, source
from release.deb import build as deb
from release.source import ReleaseError, Source

SUMS = "SHA256SUMS"
PROVENANCE = "provenance.intoto.json"


def say(text: str) -> None:
    """Print progress, on standard error only."""
    print(f"release: {text}", file=sys.stderr, flush=True)


def make(found: Source, target: Path, *, with_images: bool = False) -> list[Path]:
    """Build everything, with documents and checksums; files of earlier runs are replaced."""
    ours = target.resolve() == source.ROOT / "dist" or (target / SUMS).exists()
    if not ours and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ReleaseError(f"{target} holds something else than a release; name another --target, or empty it")
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    made = _timed("wheel and sdist", lambda: python_packages.build(found, target))
    made += _timed("charts", lambda: charts.build(found, target))
    if shutil.which("dpkg-deb"):
        made += _timed("package for Debian", lambda: [deb.build(found, target)])
        made.append(_document_of_deb(found, made[-1]))
    else:
        say("no package for Debian: dpkg-deb is not installed here")
    if with_images:
        for path, layers in images.build_images(found, target).items():
            name = path.name.removesuffix(".oci.tar")
            document = target / f"{name}.cdx.json"
            document.write_bytes(sbom.document(found, name, [layer.path for layer in layers]))
            made += [path, document]
    (target / PROVENANCE).write_bytes(provenance.statement(found, made))
    made.append(target / PROVENANCE)
    (target / SUMS).write_text(provenance.checksums(made))
    return [*made, target / SUMS]


def _document_of_deb(found: Source, path: Path) -> Path:
    document = path.with_name(f"{path.name.removesuffix('.deb')}.cdx.json")
    with tempfile.TemporaryDirectory() as folder:
        tar = Path(folder) / "files.tar"
        with tar.open("wb") as out:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], stdout=out, check=True, stdin=subprocess.DEVNULL)
        document.write_bytes(sbom.document(found, path.name.removesuffix(".deb"), [tar]))
    return document


def _timed(name: str, build: Callable[[], list[Path]]) -> list[Path]:
    started = time.monotonic()
    made = build()
    say(f"{name}: {', '.join(path.name for path in made)} in {time.monotonic() - started:.0f} s")
    return made


def main(arguments: Sequence[str]) -> int:
    """Run as a program; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m release", description="make what a release has, in a folder")
    parser.add_argument(
        "--target", type=Path, default=source.ROOT / "dist", help="default: dist/; an earlier release in it is replaced"
    )
    parser.add_argument("--images", action="store_true", help="the container images, too")
    parser.add_argument("--tag", default="", help="refuse to build when this is not v<version of pyproject.toml>")
    options = parser.parse_args(arguments)
    try:
        found = source.read(environ=os.environ)
        if options.tag and options.tag != f"v{found.version}":
            raise ReleaseError(
                f"the tag is {options.tag}, but pyproject.toml says {found.version}: write the version there first"
            )
        if found.changed:
            say("tracked files differ from the commit: good for a trial, not for a release")
        made = make(found, options.target, with_images=options.images)
    except ReleaseError as error:
        say(str(error))
        return 1
    for path in made:
        print(f"{path.name} {path.stat().st_size}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
