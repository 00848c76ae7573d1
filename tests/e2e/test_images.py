"""Images: the layers' bytes, the archive's form, and that each room runs with its own packages alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from e2e.images import archive, build, closure, layers, native

from fairlead_wire import distribution

pytestmark = pytest.mark.process

START = """
import importlib, sys
importlib.import_module("fairlead_{room}.app")
from fairlead_cli.main import main
sys.argv = ["fairlead", "{room}", "run", "--help"]
sys.exit(main())
"""


@pytest.mark.parametrize("room", build.ROOMS)
def test_room_starts_with_its_own_packages_alone(room: str, tmp_path: Path) -> None:
    """What imports more than its own extra at its start would never come up where that alone is installed."""
    for found in closure.closure(distribution.NAME, room):
        for top in {file.parts[0] for file in found.files or [] if ".." not in file.parts}:
            link = tmp_path / top
            if not link.is_symlink():
                link.symlink_to(Path(str(found.locate_file(top))))
    sources = [str((layers.ROOT / source).parent) for source in layers.SOURCES]
    done = subprocess.run(
        # -S: without the environment this test runs in.
        [sys.executable, "-S", "-c", START.format(room=room)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([*sources, str(tmp_path)])},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]


def test_closure_is_the_extras_and_no_more() -> None:
    """The edge brings its own packages, none of Spark's and none for development."""
    names = {found.name.lower() for found in closure.closure(distribution.NAME, "edge")}
    assert {"apsw", "websockets", "msgspec"} <= names
    assert "tzdata" in names  # these images have no time zones of a system
    assert not names & {"pyspark", "pytest", "kopf", "fairlead"}


RECORD = """
from fairlead_wire.io import spans
from fairlead_wire.traces.settings import TracesSettings
opened = spans.open_spans(TracesSettings(endpoint="http://127.0.0.1:9", ratio=1), room="edge", version="1", environ={})
print(opened.begin("publish", None, kind="producer").trace.trace_id)
"""


def test_an_image_can_record_spans(tmp_path: Path) -> None:
    """With what images hold of the extra and of a room's packages, and nothing else."""
    for found in closure.closure(distribution.NAME, "edge", build.TRACES):
        layers.copy_distribution(found, tmp_path)
    sources = [str((layers.ROOT / source).parent) for source in layers.SOURCES]
    done = subprocess.run(
        [sys.executable, "-S", "-c", RECORD],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([*sources, str(tmp_path)])},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    assert len(done.stdout.strip()) == 32


@pytest.mark.parametrize("room", build.ROOMS)
def test_every_image_holds_the_extra_for_traces(room: str) -> None:
    """In the recipe for container engines as well."""
    extras = build.extras_of(room)
    names = {found.name.lower() for found in closure.closure(distribution.NAME, *extras)}
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= names
    assert f"'.[{','.join(extras)}]'" in (layers.ROOT / "charts/images/Containerfile").read_text()


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("apsw/__init__.py", True),
        ("numpy/_core/include/numpy/arrayobject.h", False),
        ("pandas/tests/test_x.py", False),
        ("pyspark/jars/rocksdbjni-9.8.4.jar", False),
        ("pyspark/jars/spark-sql_2.13-4.2.1.jar", True),
        ("x/__pycache__/y.cpython-311.pyc", False),
    ],
)
def test_files_that_belong(path: str, wanted: bool) -> None:
    """Headers, tests and unused jars stay out."""
    assert closure.belongs(path) is wanted


def test_equal_content_makes_equal_layers(tmp_path: Path) -> None:
    """Times and owners are no part of a layer, so that images share what they share."""
    digests: list[str] = []
    for name in ("one", "two"):
        root = tmp_path / name
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "tool").write_text("x")
        (root / "bin" / "link").symlink_to("tool")
        os.utime(root / "bin" / "tool", (len(digests) + 1, 1))
        digests.append(archive.write_layer(root, tmp_path / f"{name}.layer").digest)
    assert digests[0] == digests[1]


def test_archive_is_an_oci_layout(tmp_path: Path) -> None:
    """Every blob lies under its digest, and the index leads to configuration and layers."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_text("content")
    found = archive.write_layer(root, tmp_path / "layer")
    image = archive.Image(name="localhost/x:1", entrypoint=["/x"], environ={"A": "b"}, user="1:1")
    archive.write(image, [found], tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as tar:
        blobs = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/x:1"
    manifest = json.loads(blobs[f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"])
    config = json.loads(blobs[f"blobs/sha256/{manifest['config']['digest'].removeprefix('sha256:')}"])
    assert config["config"] == {"Entrypoint": ["/x"], "Env": ["A=b"], "User": "1:1", "WorkingDir": "/"}
    assert config["rootfs"]["diff_ids"] == [f"sha256:{found.digest}"]


def test_system_libraries_are_found() -> None:
    """The dynamic linker names the C library of the interpreter."""
    assert any(path.name.startswith("libc.so") for path in native.needed([Path(sys.executable).resolve()]))


def test_code_layer_runs_the_program(tmp_path: Path) -> None:
    """Our packages, compiled, and `fairlead` with its version."""
    layers.code(tmp_path)
    site = tmp_path / layers.SITE
    assert list(site.glob("fairlead_cli/__pycache__/main.*.pyc"))
    assert list(site.glob("fairlead_kubernetes-*.dist-info/METADATA"))
    assert os.access(tmp_path / "usr/local/bin/fairlead", os.X_OK)
    assert os.access(tmp_path / "usr/local/bin/kubectl-fairlead", os.X_OK)


def test_unknown_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with the rooms there are."""
    with pytest.raises(SystemExit) as ended:
        build.main(["cloud"])
    assert ended.value.code == 2
    assert "hub, messaging, edge, ingest" in capsys.readouterr().err
