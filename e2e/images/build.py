#!/usr/bin/env python3
"""Build the images, once for each content, and print their archives.

    python -m e2e.images.build                all four, and pause
    python -m e2e.images.build ingest-cluster ingest with Spark's Kubernetes backend, for drivers and executors
    python -m e2e.images.build hub edge       exactly these

Progress goes to standard error; standard output has one line a image: name, archive, bytes.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.images import archive, closure, layers
from e2e.images.archive import Image, Layer

from fairlead_wire import distribution

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROOMS = ("hub", "messaging", "edge", "ingest")
CLUSTER = "ingest-cluster"
"""Ingest as driver and executors on Kubernetes: one thin layer more than `ingest`."""
TAG = "e2e"
TRACES = "traces"
"""In every image, because extras cannot be added to an existing one. Loaded only if traces are on."""
MORE: Mapping[str, Sequence[str]] = {"ingest": ("iceberg",), "messaging": ("cassandra",)}
"""Further extras of a program's image."""
KEPT_LAYERS = 24
ENVIRON = {
    "PATH": "/usr/local/bin:/opt/java/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # A distribution's own interpreter (Debian's) looks for packages elsewhere than where they are put.
    "PYTHONPATH": f"/{layers.SITE}",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}


def say(text: str) -> None:
    """Print progress, on standard error only."""
    print(f"images: {text}", file=sys.stderr, flush=True)


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """$XDG_CACHE_HOME/fairlead/images, or ~/.cache/fairlead/images."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "fairlead" / "images"


def image_name(room: str) -> str:
    """The name under which Pods ask for a room's image."""
    return f"localhost/fairlead-{room}:{TAG}"


def hash_of(*parts: str | Path) -> str:
    """16 hex digits of texts, and of the content of files and folders."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(f"{part}\0".encode())
            continue
        files = sorted(path for path in part.rglob("*") if path.is_file()) if part.is_dir() else [part]
        for file in files:
            if "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Allow one builder at a time; two would only do the same work twice."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def layer(folder: Path, name: str, key: str, fill: Callable[[Path], None]) -> Layer:
    """The layer of this key, from the cache or made now."""
    target = folder / f"{name}-{key}.layer"
    if not target.exists():
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=folder) as draft:
            root = Path(draft) / "root"
            root.mkdir()
            fill(root)
            archive.write_layer(root, Path(draft) / "layer")
            (Path(draft) / "layer").rename(target)
        say(f"layer {name}: {target.stat().st_size / 1e6:.0f} MB in {time.monotonic() - started:.0f} s")
    target.touch()
    return archive.read_layer(target)


def layers_of(room: str, folder: Path) -> list[Layer]:
    """The layers of a program's image, in the order of how rarely they change."""
    how = hash_of(HERE / "layers.py", HERE / "closure.py", HERE / "native.py", HERE / "archive.py", sys.version)
    if room == CLUSTER:
        below = closure.closure(distribution.NAME, "ingest")
        spark = hash_of(how, *(f"{found.name}=={found.version}" for found in below))
        entrypoint = hash_of(spark, ROOT / layers.ENTRYPOINT)
        backend = layer(folder, CLUSTER, entrypoint, layers.kubernetes_backend)
        *under, code = layers_of("ingest", folder)
        return [*under, backend, code]
    extras = extras_of(room)
    installed = hash_of(*(f"{found.name}=={found.version}" for found in closure.closure(distribution.NAME, *extras)))
    ours = hash_of(*(ROOT / source for source in layers.SOURCES))
    found = [layer(folder, "python", how, layers.python)]
    if room == "ingest":
        found.append(layer(folder, "java", how, layers.java))
    found.append(layer(folder, room, hash_of(how, installed), layers.packages(*extras)))
    return [*found, layer(folder, "fairlead", hash_of(how, ours), layers.code)]


def environ_of(room: str) -> dict[str, str]:
    """The variables of a container of this room."""
    return {**ENVIRON, **({"JAVA_HOME": "/opt/java"} if room in ("ingest", CLUSTER) else {})}


def extras_of(room: str) -> tuple[str, ...]:
    """Which extras a room's image installs."""
    return (room, *MORE.get(room, ()), TRACES)


def entrypoint_of(room: str) -> list[str]:
    """What a container of this room runs."""
    return ["/opt/entrypoint.sh"] if room == CLUSTER else ["/usr/local/bin/fairlead"]


def build(room: str, folder: Path) -> Path:
    """The archive of a room's image."""
    found = layers_of(room, folder)
    image = Image(
        name=image_name(room),
        entrypoint=entrypoint_of(room),
        environ=environ_of(room),
        user=f"{layers.USER}:{layers.USER}",
    )
    return _archive(room, image, found, folder)


def build_pause(folder: Path) -> Path:
    """The archive of the image that holds a Pod's namespaces; 1.5 MB, made by Go."""

    def fill(root: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise layers.LayerError("the pause image needs Go; install Go 1.22 or newer (https://go.dev/dl)")
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(root / "pause"), "."]
        done = subprocess.run(
            command, cwd=HERE / "pause", env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise layers.LayerError(f"building the pause image failed: {done.stderr.strip()[-500:]}")

    found = layer(folder, "pause", hash_of(HERE / "pause"), fill)
    image = Image(name=f"localhost/pause:{TAG}", entrypoint=["/pause"], environ={"PATH": "/"}, user="")
    return _archive("pause", image, [found], folder)


def _archive(name: str, image: Image, found: Sequence[Layer], folder: Path) -> Path:
    key = hash_of(repr(image), *(each.digest for each in found))
    target = folder / f"{name}-{key}.tar"
    if not target.exists():
        for old in folder.glob(f"{name}-*.tar"):
            old.unlink()
        draft = folder / f".{name}.{os.getpid()}"
        archive.write(image, found, draft)
        draft.rename(target)
    return target


def forget_old(folder: Path) -> None:
    """Keep the newest KEPT_LAYERS layers."""
    found = sorted(folder.glob("*.layer"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[KEPT_LAYERS:]:
        old.unlink()


def provide(rooms: Sequence[str] = ROOMS, folder: Path | None = None) -> dict[str, Path]:
    """Archives by room, and `pause`; builds what the cache lacks. Raises LayerError with a sentence."""
    target = folder or cache()
    with locked(target):
        found = {room: build(room, target) for room in rooms}
        found["pause"] = build_pause(target)
        forget_old(target)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run as a program; see the module's docstring."""
    parser = argparse.ArgumentParser(description="build the container images without a container engine")
    known = (*ROOMS, CLUSTER)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(known)}; default: {', '.join(ROOMS)}")
    parser.add_argument("--compressed", action="store_true", help="also print the size a registry would store")
    options = parser.parse_args(arguments)
    unknown = [room for room in options.rooms if room not in known]
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        found = provide(options.rooms or ROOMS)
    except layers.LayerError as error:
        say(str(error))
        return 1
    for room, path in found.items():
        packed = f" {archive.compressed_size(path)}" if options.compressed else ""
        print(f"{room} {path} {path.stat().st_size}{packed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
