#!/usr/bin/env python3
"""Fetch Apache Iceberg's own REST catalog once, compile the few lines that start it, and print its folder.

    pom.xml (versions) ──mvn──► jars/      Server.java ──javac──► classes/      ─► ~/.cache/fairlead/rest-catalog/HASH

Plain Python, standard library only; needs mvn and a JDK. The folder is named by the content of both files and created
by a rename, so it is always complete. Exit 0 with the folder on the last line; exit 1 with a message.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HADOOP = "hadoop-client-*.jar"
SECONDS = 600


def main(hadoop: Path) -> int:
    """`hadoop`: a folder that has Hadoop's client, as pyspark's `jars` has."""
    for program in ("mvn", "javac", "java"):
        if shutil.which(program) is None:
            print(f"rest-catalog: {program} is not installed; install Maven and a JDK 17", file=sys.stderr)
            return 1
    content = b"".join((HERE / name).read_bytes() for name in ("pom.xml", "Server.java"))
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "rest-catalog"
    place = root / hashlib.sha256(content).hexdigest()[:16]
    if not place.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        print("rest-catalog: fetching and compiling, about a minute", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=root) as draft:
            made = Path(draft) / "made"
            fetch = ["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            jars = made / "jars"
            compile_ = ["javac", "-cp", f"{jars}/*:{hadoop}/*", "-d", str(made / "classes"), str(HERE / "Server.java")]
            for command in ([*fetch, f"-DoutputDirectory={jars}"], compile_):
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                if done.returncode != 0:
                    print(f"rest-catalog: {command[0]} failed: {(done.stdout + done.stderr)[-2000:]}", file=sys.stderr)
                    return 1 if command is compile_ else 2
            try:
                made.rename(place)
            except OSError:
                assert place.is_dir()  # another build was first
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
