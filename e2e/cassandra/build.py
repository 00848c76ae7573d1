#!/usr/bin/env python3
"""Fetch Apache Cassandra's jars once, check each against its pin, and print their folder.

    pom.xml (version) ──mvn──────────────────┐
    jars.sha256 (paths) ──FAIRLEAD_JAVA_REGISTRY──┴─► jars ──SHA-256──► ~/.cache/fairlead/cassandra/HASH

Plain Python, standard library only; needs Java 17 and mvn. Without mvn the jars come straight from the registry of
Java packages whose address FAIRLEAD_JAVA_REGISTRY is, by the paths in jars.sha256, so a mirror or a folder served by
HTTP will do. The folder is named by the content of both files and is created by a rename, so it is always complete.
Exit 0 with the folder on the last line; exit 2 with a message if it cannot be fetched, exit 1 if a download does
not match its pin.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
PINS = HERE / "jars.sha256"
REGISTRY = "FAIRLEAD_JAVA_REGISTRY"
SECONDS = 600
JAR_BYTES_MAX = 64 * 1024 * 1024
AT_ONCE = 8


class BuildError(Exception):
    """An error that the user can fix; the text is the whole message."""


class NotFetched(BuildError):
    """No program to download with, no network, or no response."""


def main() -> int:
    """Exit code."""
    if shutil.which("java") is None:
        print("cassandra: java is not installed; install a JRE or JDK 17", file=sys.stderr)
        return 2
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "cassandra"
    place = root / hashlib.sha256(POM.read_bytes() + PINS.read_bytes()).hexdigest()[:16]
    if not place.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        print("cassandra: fetching 68 MB", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=root) as draft:
            try:
                fetch(Path(draft) / "layout")
                checked(Path(draft) / "layout", Path(draft) / "made").rename(place)
            except BuildError as error:
                print(f"cassandra: {error}", file=sys.stderr)
                return 2 if isinstance(error, NotFetched) else 1
            except OSError:
                assert place.is_dir()  # another build was first
    print(place)
    return 0


def fetch(layout: Path) -> None:
    """The jars below `layout`, at the paths of a registry. Raises `NotFetched`."""
    if shutil.which("mvn") is not None:
        command = ["mvn", "-q", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [*command, "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={layout}"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NotFetched(f"mvn did not end within {SECONDS} s") from None
        if done.returncode != 0:
            raise NotFetched(f"mvn failed: {(done.stdout + done.stderr)[-2000:]}")
        return
    registry = os.environ.get(REGISTRY, "").rstrip("/")
    if not registry:
        raise NotFetched(
            f"mvn is not installed; install Maven, or set {REGISTRY} to the address of a registry of Java packages"
        )
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(lambda path: download(f"{registry}/{path}", layout / path), pins()):
            pass


def download(url: str, file: Path) -> None:
    """One jar. Raises `NotFetched`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            file.write_bytes(answer.read(JAR_BYTES_MAX))
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise NotFetched(f"{url}: {error}") from error


def pins() -> dict[str, str]:
    """The SHA-256 of every jar, by its path in a registry."""
    return {path: checksum for checksum, path in (line.split() for line in PINS.read_text().splitlines())}


def checked(layout: Path, made: Path) -> Path:
    """Returns `made` if it contains exactly the pinned jars. Raises `BuildError`."""
    made.mkdir()
    pinned = pins()
    strange = {str(each.relative_to(layout)) for each in layout.rglob("*.jar")} - pinned.keys()
    if strange:
        raise BuildError(f"jars without a pin in jars.sha256: {', '.join(sorted(strange))}")
    for path, checksum in pinned.items():
        if not (layout / path).is_file():
            raise BuildError(f"{path} is missing after the download")
        found = hashlib.sha256((layout / path).read_bytes()).hexdigest()
        if found != checksum:
            raise BuildError(f"{path} has the checksum {found}, not {checksum}, which does not match its pin")
        shutil.copyfile(layout / path, made / Path(path).name)
    return made


if __name__ == "__main__":
    sys.exit(main())
