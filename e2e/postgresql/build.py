#!/usr/bin/env python3
"""Fetch PostgreSQL's programs (server, initdb) once, verify them, and print their folder.

    pom.xml (version) ──mvn──► a jar ──checksum──► its archive: bin/, lib/, share/  ─► ~/.cache/fairlead/postgresql/HASH

Plain Python, standard library only; needs mvn and a JDK. The folder is named by the content of pom.xml and by the
checksum and is created by a rename, so it is always complete. Exit 0 with the folder on the last line; exit 2 with a
message if it cannot be fetched, exit 1 if the download does not match its pin.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

POM = Path(__file__).resolve().parent / "pom.xml"
CHECKSUMS = {
    "x86_64": ("amd64", "23da5a044b4fb7a5a081a45008c95749c873305328d73f86aefd56922ce1d29d"),
    "aarch64": ("arm64v8", "84427ea54a5238247924ef3b0f940e7d027e58760f19d7325242e50d22fa014a"),
}
"""By machine, what the package calls it and the SHA-256 of its jar."""
SECONDS = 600


def main() -> int:
    """Exit code."""
    if platform.machine() not in CHECKSUMS:
        print(
            f"postgresql: no pinned package for {platform.machine()}; known are {', '.join(CHECKSUMS)}", file=sys.stderr
        )
        return 1
    if shutil.which("mvn") is None:
        print("postgresql: mvn is not installed; install Maven and a JDK 17", file=sys.stderr)
        return 2
    machine, checksum = CHECKSUMS[platform.machine()]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "postgresql"
    place = root / hashlib.sha256(POM.read_bytes() + checksum.encode()).hexdigest()[:16]
    if not place.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        print("postgresql: fetching 15 MB", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=root) as draft:
            fetch = ["mvn", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-Dmachine={machine}"]
            done = subprocess.run(
                [*fetch, f"-DoutputDirectory={draft}"], capture_output=True, text=True, timeout=SECONDS
            )
            if done.returncode != 0:
                print(f"postgresql: mvn failed: {(done.stdout + done.stderr)[-2000:]}", file=sys.stderr)
                return 2
            try:
                unpack(Path(draft), checksum).rename(place)
            except ValueError as error:
                print(f"postgresql: {error}", file=sys.stderr)
                return 1
            except OSError:
                assert place.is_dir()  # another build was first
    print(place)
    return 0


def unpack(folder: Path, checksum: str) -> Path:
    """The programs out of the only jar in `folder`, where what it is is what was pinned. Raises `ValueError`."""
    (jar,) = folder.glob("*.jar")
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != checksum:
        raise ValueError(f"{jar.name} has the checksum {found}, not {checksum}, which does not match its pin")
    made = folder / "made"
    with zipfile.ZipFile(jar) as outer:
        (name,) = (each for each in outer.namelist() if each.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name)), mode="r:xz") as inner:
            inner.extractall(made, filter="data")
    return made


if __name__ == "__main__":
    sys.exit(main())
