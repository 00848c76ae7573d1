"""The document of an archive: complete, valid by CycloneDX's own schema, the same each time."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from release.source import Source

from release import sbom, source

DATA = Path(__file__).parent / "data"
SCHEMAS = ("bom-1.6", "spdx", "jsf-0.82")
"""Of CycloneDX, Apache-2.0, unchanged: as in cyclonedx-python-lib 11.12.0."""
SOURCE = Source(root=source.ROOT, version="0.1.0", epoch=86400, commit="c" * 40, changed=False)


def schema(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.schema.json.gz").read_bytes()))


def valid(document: bytes) -> dict[str, Any]:
    """The document, once the schema has accepted it."""
    registry: Registry[Any] = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", Resource.from_contents(schema(name)))
        for name in SCHEMAS
    )
    read: dict[str, Any] = json.loads(document)
    mistakes = [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft7Validator(schema("bom-1.6"), registry=registry).iter_errors(read)
    ]
    assert mistakes == []
    return read


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def jar(**properties: str) -> bytes:
    """A jar made of Maven artifacts, name=version."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, version in properties.items():
            text = f"groupId=org.example\nartifactId={name}\nversion={version}\n"
            packed.writestr(f"META-INF/maven/org.example/{name}/pom.properties", text)
    return out.getvalue()


FILES = {
    "usr/local/lib/python3.11/site-packages/Some_Package-1.2.dist-info/METADATA": (
        b"Metadata-Version: 2.4\nName: Some_Package\nVersion: 1.2\nLicense-Expression: MIT\n\nText"
    ),
    "usr/local/lib/python3.11/site-packages/old-3.dist-info/METADATA": (
        b"Metadata-Version: 2.1\nName: old\nVersion: 3\nLicense: The old one\n\n"
    ),
    "usr/local/lib/python3.11/site-packages/old/_speed.cpython-311.so": b"part of old",
    "usr/lib/x86_64-linux-gnu/libnowhere.so.9": b"a library",
    "opt/java/release": b'IMPLEMENTOR="Somewhere"\nJAVA_VERSION="17.0.19"\n',
    "opt/java/lib/libjvm.so": b"part of java",
    "jars/shaded.jar": jar(inner="1.0", other="2.0"),
    "jars/silent-4.5.6.jar": jar(),
}


def test_each_kind_of_content_is_named(tmp_path: Path) -> None:
    """Python packages with licences, jars inside of jars, Java, libraries with digests; parts of them once only."""
    read = valid(sbom.document(SOURCE, "image", [archive(tmp_path / "a.tar", FILES)]))
    assert {each.get("purl", each["bom-ref"]) for each in read["components"]} == {
        "pkg:pypi/some-package@1.2",
        "pkg:pypi/old@3",
        "pkg:maven/org.example/inner@1.0",
        "pkg:maven/org.example/other@2.0",
        "silent@4.5.6",
        "pkg:generic/openjdk@17.0.19",
        "file:usr/lib/x86_64-linux-gnu/libnowhere.so.9",
    }
    [some] = [each for each in read["components"] if each["name"] == "some-package"]
    assert some["licenses"] == [{"expression": "MIT"}]
    assert len(read["dependencies"]) == len(read["components"]) + 1


def test_same_archives_same_document(tmp_path: Path) -> None:
    """And another one for other bytes."""
    tar = archive(tmp_path / "a.tar", FILES)
    assert sbom.document(SOURCE, "image", [tar]) == sbom.document(SOURCE, "image", [tar])
    other = archive(tmp_path / "b.tar", {**FILES, "usr/x": b"y"})
    first, second = (json.loads(sbom.document(SOURCE, "image", [path])) for path in (tar, other))
    assert first["serialNumber"] != second["serialNumber"]


@pytest.mark.process
def test_a_library_of_the_system_has_its_packages_version(tmp_path: Path) -> None:
    """Only when the bytes are the package's own."""
    here = next((path for path in Path("/lib").glob("*-linux-gnu/libz.so.1")), None)
    if here is None or not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("no libz of a Debian package here")
    name = str(here.relative_to("/"))
    [found] = sbom.components(archive(tmp_path / "a.tar", {name: here.read_bytes()}))
    assert found["purl"].startswith(("pkg:deb/debian/zlib1g@", "pkg:deb/ubuntu/zlib1g@")), found
    [changed] = sbom.components(archive(tmp_path / "b.tar", {name: b"something else"}))
    assert "purl" not in changed
