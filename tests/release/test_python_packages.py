"""Wheel and sdist: the same bytes each time, and at home in every Python we promise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
from release.source import ROOT, ReleaseError
from tests.support.edges.edge_agent import EdgeAgent

from release import python_packages, source

pytestmark = [pytest.mark.process, pytest.mark.verify]

PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = ("edge", "hub", "messaging", "client")
"""Ingest brings 400 MB of Spark: its resolution is what the lock file shows."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = python_packages.build(source.read(), tmp_path_factory.mktemp("dist"))
    return next(path for path in made if path.suffix == ".whl")


def interpreter(version: str, folder: Path) -> Path:
    """A Python of this version: on the PATH, or of a version manager that is there.  Skips without one."""
    environ = dict(os.environ)
    command = f"python{version}"
    if shutil.which("pyenv"):
        done = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
        fits = [each for each in done.stdout.split() if re.fullmatch(rf"{re.escape(version)}\.\d+", each)]
        if fits:
            environ["PYENV_VERSION"] = fits[-1]
    program = "import sys, venv, ensurepip; print(sys.executable)"
    found = shutil.which(command) and subprocess.run(
        [command, "-c", program], env=environ, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if not found or found.returncode != 0:
        pytest.skip(f"no {command} with venv here; install it to try the wheel on it")
    return Path(found.stdout.strip())


INSTALLER = re.compile(r"PIP_\w+|(https?|all|no)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE", re.IGNORECASE)
"""What leads pip to where packages are, on a machine that needs to be told."""


def run(*command: str | Path, folder: Path) -> str:
    """Without what else this environment says."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, env={"PATH": "/usr/bin:/bin", **{k: v for k, v in os.environ.items() if INSTALLER.fullmatch(k)}},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout[-800:]}{done.stderr[-1500:]}"
    return done.stdout


@pytest.mark.parametrize("version", PYTHONS)
def test_wheel_in_a_clean_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    """With the extras and the versions of the lock file, as wheels only: the commands answer, an agent serves."""
    python = interpreter(version, tmp_path)
    run(python, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    inside = tmp_path / "venv" / "bin"
    pinned = re.findall(r"(?m)^([A-Za-z0-9._-]+==[^ ;\\]+)", (ROOT / "requirements/dev.lock").read_text())
    (tmp_path / "constraints.txt").write_text("\n".join(pinned))
    started = time.monotonic()
    run(
        inside / "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:",
        "-c", tmp_path / "constraints.txt", f"{wheel}[{','.join(EXTRAS)}]", folder=tmp_path,
    )  # fmt: skip
    print(f"Python {version}: installed {'+'.join(EXTRAS)} in {time.monotonic() - started:.0f} s")
    assert run(inside / "fairlead", "--version", folder=tmp_path) == f"fairlead {source.read().version}\n"
    for room in ("edge", "hub", "messaging"):
        assert "run" in run(inside / "fairlead", room, "--help", folder=tmp_path)
        run(inside / "python", "-c", f"import fairlead_{room}.app", folder=tmp_path)
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1")
    agent.program = [str(inside / "fairlead")]
    agent.start()
    try:
        assert agent.get("/healthz")[0] == 200
        assert agent.stop() == 0
    finally:
        if agent.running is not None and agent.running.alive:
            agent.kill()


def test_sdist_makes_the_same_wheel(tmp_path: Path, wheel: Path) -> None:
    """The tree in the sdist is whole: what it builds, without a history, are the wheel's bytes."""
    [sdist] = [path for path in wheel.parent.iterdir() if path.name.endswith(".tar.gz")]
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    [tree] = [path for path in tmp_path.iterdir() if path.is_dir()]
    again = source.read(tree, {"SOURCE_DATE_EPOCH": str(source.read().epoch)})
    made = python_packages.build(again, tmp_path / "dist")
    assert next(path for path in made if path.suffix == ".whl").read_bytes() == wheel.read_bytes()


BUILD = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from release import python_packages, source
python_packages.build(source.read(Path(sys.argv[1])), Path(sys.argv[3]))
"""


def test_built_twice_the_bytes_are_the_same(tmp_path: Path) -> None:
    """Another folder, umask, time of the files and order of sets."""
    found = source.read()
    made: list[dict[str, bytes]] = []
    for name, umask, seed, written in (("one", "077", "1", 1_000_000_000), ("two", "002", "2", 1_600_000_000)):
        tree = source.stage(found, tmp_path / name / "tree")
        for path in tree.rglob("*"):
            os.utime(path, (written, written))
        subprocess.run(
            [sys.executable, "-c", BUILD, str(tree), umask, str(tmp_path / name / "dist")],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "1700000000"},
            stdin=subprocess.DEVNULL, check=True, capture_output=True,
        )  # fmt: skip
        made.append({path.name: path.read_bytes() for path in (tmp_path / name / "dist").iterdir()})
    assert made[0] == made[1] and len(made[0]) == 2


def test_wheel_has_the_rooms_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert {"fairlead_wire", "fairlead_hub", "fairlead_edge", "fairlead_messaging", "fairlead_cli"} <= tops
    assert not tops & {"tests", "release", "e2e", "docs"}


def test_one_version_everywhere() -> None:
    """pyproject.toml is where it is written; the charts repeat it because Helm wants it there."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for chart in ("fairlead", "fairlead-edge"):
        text = (ROOT / "charts" / chart / "Chart.yaml").read_text()
        assert f"version: {version}\n" in text and f'appVersion: "{version}"\n' in text


def test_failed_build_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n[build-system]\nrequires = 3\n')
    with pytest.raises(ReleaseError, match="building wheel and sdist failed"):
        python_packages.build(source.read(tmp_path, {}), tmp_path / "dist")
