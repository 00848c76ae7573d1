"""The package for Debian: built twice, installed, upgraded, removed and purged by the real dpkg."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from release.source import ROOT, ReleaseError
from tests.support.processes import free_ports

from release import source
from release.deb import build, tree

HERE = Path(__file__).parent
OLDER = "0.0.9"
pytestmark = [
    pytest.mark.process,
    pytest.mark.verify,
    pytest.mark.skipif(
        None in (shutil.which("dpkg-deb"), shutil.which("strip")),
        reason="dpkg-deb (of Debian and Ubuntu) or strip (package binutils) is not here",
    ),
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One of an older version, and one of this."""
    folder, found = tmp_path_factory.mktemp("deb"), source.read()
    return build.build(found, folder, version=OLDER), build.build(found, folder)


def test_built_twice_the_bytes_are_the_same(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """By another process: another umask, temporary folder, time and order of sets."""
    program = (
        "import os, sys; from pathlib import Path; os.umask(0o077)\n"
        "from release import source; from release.deb import build\n"
        "build.build(source.read(), Path(sys.argv[1]))\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "again")],
        env={**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    [again] = (tmp_path / "again").iterdir()
    assert again.name == packages[1].name
    assert again.read_bytes() == packages[1].read_bytes()


def test_lintian_finds_nothing(packages: tuple[Path, Path]) -> None:
    """Neither error nor warning; what is overridden says why, in the package."""
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed: apt-get install lintian")
    done = subprocess.run(
        ["lintian", "--allow-root", str(packages[1])], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")] == []


def test_story_of_a_device(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """dpkg -i, settings, a running agent, an upgrade that keeps settings and store, removal, purge."""
    program = Path("/usr/bin/python3")
    system = subprocess.run([program, "-V"], capture_output=True, text=True).stdout if program.exists() else ""
    if not system.startswith(f"Python {sys.version_info[0]}.{sys.version_info[1]}."):
        pytest.skip(f"the package is for the Python that built it; the system's is {system.strip() or 'none'}")
    own_root = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    if os.geteuid() != 0 or subprocess.run([*own_root, "true"], capture_output=True).returncode != 0:
        pytest.skip("a root file system of its own needs root and mount namespaces")
    (tmp_path / "memory").mkdir()
    done = subprocess.run(
        [
            *own_root, "bash", str(HERE / "in_own_root.sh"), str(tmp_path / "memory"), str(HERE / "story.sh"),
            *map(str, packages),
        ],
        env={**os.environ, "PORT": str(free_ports(1)[0])},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if "mount:" in done.stderr and "fact" not in done.stdout:
        pytest.skip(f"no file system can be laid over this one: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    facts = dict(re.findall(r"(?m)^fact (\w+)=(.*)$", done.stdout))
    print(f"{packages[1].stat().st_size / 1e6:.1f} MB, installed in {int(facts.pop('install_milliseconds')) / 1000} s")
    assert "set node and hub_url" in done.stdout
    assert facts == {
        "old_version": f"fairlead {OLDER}",
        "verify": "0",
        "user": "fairlead",
        "edge_help": "Usage: fairlead edge [OPTIONS] COMMAND [ARGS]...",
        "untouched": "2",
        "new_version": f"fairlead {source.read().version}",
        "settings_kept": "yes",
        "store_kept": "yes",
        "removed_program": "no",
        "removed_code": "no",
        "removed_settings": "yes",
        "removed_store": "yes",
        "again_settings": "yes",
        "purged_settings": "no",
        "purged_store": "no",
        "purged_leftovers": "0",
        "purged_state": "unknown",
    }
    assert not Path("/usr/lib/fairlead").exists()


def test_control_says_what_it_needs(packages: tuple[Path, Path]) -> None:
    """The Python of its byte code and extensions, and no other."""
    shown = subprocess.run(["dpkg-deb", "-f", str(packages[1])], capture_output=True, text=True, check=True).stdout
    major, minor = sys.version_info[:2]
    assert f"python3 (>= {major}.{minor}~), python3 (<< {major}.{minor + 1}~)" in shown
    assert f"Version: {tree.debian_version(source.read().version)}" in shown


def test_without_its_tools_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where git is there, which says what belongs into a release."""
    git = shutil.which("git")
    (tmp_path / "bin").mkdir()
    if git is not None:
        (tmp_path / "bin" / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ReleaseError, match="install dpkg and try again"):
        build.build(source.read(), tmp_path)
