"""The images as OCI archives named after a release, and the layers of each for its SBOM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from e2e.images import archive, build
from e2e.images.archive import Image, Layer
from e2e.images.layers import USER, LayerError

from release.source import ReleaseError, Source

ROOMS = (*build.ROOMS, build.CLUSTER)


def build_images(
    source: Source, target: Path, *, rooms: Sequence[str] = ROOMS, cache: Path | None = None
) -> dict[Path, list[Layer]]:
    """Archives with their layers; equal layers come from the cache."""
    target.mkdir(parents=True, exist_ok=True)
    made: dict[Path, list[Layer]] = {}
    folder = cache or build.cache()
    try:
        with build.locked(folder):
            for room in rooms:
                layers = build.layers_of(room, folder)
                image = Image(
                    name=f"localhost/fairlead-{room}:{source.version}",
                    entrypoint=build.entrypoint_of(room),
                    environ=build.environ_of(room),
                    user=f"{USER}:{USER}",
                )
                path = target / f"fairlead-{room}-{source.version}-{archive.architecture()}.oci.tar"
                archive.write(image, layers, path)
                made[path] = layers
    except LayerError as error:
        raise ReleaseError(str(error)) from None
    return made
