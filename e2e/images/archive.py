"""Writes an image as an OCI layout in one tar, which `ctr images import`, docker, podman and kind all read."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A tar on disk with the digest and size of its bytes."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """The start configuration of this image's containers."""

    name: str
    entrypoint: Sequence[str]
    environ: Mapping[str, str]
    user: str


def architecture() -> str:
    """This machine's architecture as images call it."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def write_layer(folder: Path, target: Path) -> Layer:
    """Tar a folder: sorted, owned by root, without times, so that equal content gives equal bytes."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, arcname=str(path.relative_to(folder)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if info.isreg():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    return read_layer(target)


def read_layer(path: Path) -> Layer:
    """The digest of a tar on disk."""
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
    return Layer(path=path, digest=digest.hexdigest(), size=path.stat().st_size)


def write(image: Image, layers: Sequence[Layer], target: Path) -> None:
    """Write the archive."""
    config = {
        "architecture": architecture(),
        "os": "linux",
        "created": EPOCH,
        "config": {
            "Env": [f"{key}={value}" for key, value in image.environ.items()],
            "Entrypoint": list(image.entrypoint),
            "User": image.user,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
        "history": [{"created": EPOCH, "created_by": "fairlead"} for _ in layers],
    }
    config_blob = _blob(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _describe("application/vnd.oci.image.config.v1+json", config_blob),
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": f"sha256:{layer.digest}",
                "size": layer.size,
            }
            for layer in layers
        ],
    }
    manifest_blob = _blob(manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [
            {
                **_describe(str(manifest["mediaType"]), manifest_blob),
                "platform": {"architecture": architecture(), "os": "linux"},
                "annotations": {
                    "io.containerd.image.name": image.name,
                    "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
                },
            }
        ],
    }
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", _blob(index))
        for blob in (config_blob, manifest_blob):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in layers:
            info = tarfile.TarInfo(f"blobs/sha256/{layer.digest}")
            info.size = layer.size
            with layer.path.open("rb") as content:
                tar.addfile(info, content)


def compressed_size(path: Path) -> int:
    """Size of a file after gzip -6, as a registry would store and send it."""

    class Counter(io.RawIOBase):
        total = 0

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.total += len(data)
            return len(data)

    counter = Counter()
    with gzip.GzipFile(fileobj=counter, mode="wb", compresslevel=6) as packed, path.open("rb") as content:
        while block := content.read(BLOCK):
            packed.write(block)
    return counter.total


def _blob(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _describe(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
