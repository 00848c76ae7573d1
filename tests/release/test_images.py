"""Images of a release: the same bytes from two empty caches, and a document of what is really in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.release.test_sbom import valid

from release import images, sbom, source

pytestmark = [pytest.mark.process, pytest.mark.verify]


def test_two_builds_of_the_edges_image_are_equal_and_described(tmp_path: Path) -> None:
    found = source.read()
    made = [
        images.build_images(found, tmp_path / name, rooms=["edge"], cache=tmp_path / f"{name}-cache")
        for name in ("one", "two")
    ]
    [(first, layers)], [(second, _)] = made[0].items(), made[1].items()
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    document = valid(sbom.document(found, "fairlead-edge", [layer.path for layer in layers]))
    names = {each["name"] for each in document["components"]}
    assert {"python", "fairlead-kubernetes", "aiohttp", "apsw", "websockets", "opentelemetry-sdk"} <= names
    assert any(name.startswith("libc.so") for name in names)
    assert not names & {"pytest", "pyspark"}
    assert json.dumps(document).count("pkg:pypi/") > 8
