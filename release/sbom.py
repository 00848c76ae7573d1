"""Lists the contents of an archive as a CycloneDX document: Python packages, jars, Java, and the system's libraries.

It is read from the archive itself, not from a list of what was asked for: what is not in the bytes is not in the
document, and what came along with something else is.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any

from release.source import Source

Component = dict[str, Any]
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_INSIDE = re.compile(r"/(python3[.\d]*|fairlead|java)/")
"""Extension modules and Java's own libraries belong to the component that installed them."""
_PYTHON = re.compile(r"python3\.\d+")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar$")
NAMESPACE = uuid.UUID("6f0f3a1c-2f57-5c53-9f0c-0d6b8a0d8f5e")


def document(source: Source, name: str, archives: Iterable[Path]) -> bytes:
    """The document of one package or image; ``archives`` are its layers, in order."""
    paths = list(archives)
    found = sorted(merged(component for path in paths for component in components(path)), key=_order)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    root = {"type": "application", "bom-ref": name, "name": name, "version": source.version}
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(source.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
        },
        "components": found,
        "dependencies": [
            {"ref": name, "dependsOn": [each["bom-ref"] for each in found]},
            *({"ref": each["bom-ref"]} for each in found),
        ],
    }
    return json.dumps(body, indent=1, sort_keys=True).encode() + b"\n"


def merged(found: Iterable[Component]) -> list[Component]:
    """Each component once, however many layers or jars contain it."""
    return list({each["bom-ref"]: each for each in found}.values())


def components(archive: Path) -> Iterator[Component]:
    """The components of one tar, in its order."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if not member.isreg() or (read := tar.extractfile(member)) is None:
                continue
            if path.name == "METADATA" and path.parent.suffix == ".dist-info":
                yield python_package(read.read().decode(errors="replace"))
            elif path.suffix == ".jar":
                yield from jar(path.name, read.read())
            elif _PYTHON.fullmatch(path.name) and path.parent.name == "bin":
                # Copied from the machine that builds, so it is the very one that runs this.
                version = platform.python_version()
                yield _component("platform", "python", version, f"pkg:generic/python@{version}")
            elif path.parts[-2:] == ("java", "release"):
                yield java(read.read().decode(errors="replace"))
            elif _LIBRARY.search(path.name) and not _INSIDE.search(member.name):
                yield system_library(path, read.read())


def python_package(metadata: str) -> Component:
    """A Python package, from its metadata."""
    read = HeaderParser().parsestr(metadata)
    name = re.sub(r"[-_.]+", "-", read["Name"]).lower()
    made = _component("library", name, read["Version"], f"pkg:pypi/{name}@{read['Version']}")
    if read["License-Expression"]:
        made["licenses"] = [{"expression": read["License-Expression"]}]
    elif text := (read["License"] or "").strip():
        made["licenses"] = [{"license": {"name": text.splitlines()[0][:100]}}]
    return made


def jar(file: str, content: bytes) -> Iterator[Component]:
    """The components that a jar declares (several if it is shaded); without a declaration, its file name."""
    found = []
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for entry in sorted(packed.namelist()):
            if entry.startswith("META-INF/maven/") and entry.endswith("/pom.properties"):
                lines = packed.read(entry).decode(errors="replace").splitlines()
                said = dict(line.split("=", 1) for line in lines if "=" in line)
                if {"groupId", "artifactId", "version"} <= said.keys():
                    found.append(_maven(said["groupId"], said["artifactId"], said["version"]))
    if not found and (named := _JAR.match(file)):
        found.append(_component("library", named["name"], named["version"], ""))
    yield from found


def java(text: str) -> Component:
    """The Java runtime, from its `release` file."""
    said = dict(re.findall(r'(?m)^(\w+)="(.*)"$', text))
    version = said.get("JAVA_RUNTIME_VERSION") or said.get("JAVA_VERSION", "")
    return _component("platform", "openjdk", version, f"pkg:generic/openjdk@{version}")


def system_library(path: PurePosixPath, content: bytes) -> Component:
    """A library outside any package: its digest, and the system package that contains the same file, if any."""
    digest = hashlib.sha256(content).hexdigest()
    made = _component("library", path.name, "", "", reference=f"file:{path}")
    made["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if owner := _owner(path, digest):
        made |= {
            "version": owner["version"],
            "purl": f"pkg:deb/{owner['system']}/{owner['package']}@{owner['version']}",
        }
    return made


def _owner(path: PurePosixPath, digest: str) -> Mapping[str, str] | None:
    here = Path("/") / path
    if shutil.which("dpkg-query") is None or not here.is_file():
        return None
    if hashlib.sha256(here.read_bytes()).hexdigest() != digest:
        return None
    # The link whose name a program asks for is often not a file of the package, but what it leads to is.
    for candidate in (here, here.resolve(), Path(str(here.resolve()).removeprefix("/usr"))):
        done = subprocess.run(["dpkg-query", "-S", str(candidate)], capture_output=True, text=True)
        if done.returncode == 0:
            package = done.stdout.split(": ")[0].split(",")[0]
            version = subprocess.run(
                ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True
            ).stdout
            return {"package": package.split(":")[0], "version": version, "system": _system()}
    return None


def _system() -> str:
    text = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    named = re.search(r'(?m)^ID="?(\w+)', text)
    return named[1] if named else "debian"


def _maven(group: str, name: str, version: str) -> Component:
    return _component("library", name, version, f"pkg:maven/{group}/{name}@{version}", group=group)


def _component(kind: str, name: str, version: str, purl: str, *, group: str = "", reference: str = "") -> Component:
    made: Component = {"type": kind, "bom-ref": reference or purl or f"{name}@{version}", "name": name}
    made |= {key: value for key, value in (("version", version), ("purl", purl), ("group", group)) if value}
    return made


def _order(component: Component) -> tuple[str, str]:
    return component["name"].lower(), component["bom-ref"]
