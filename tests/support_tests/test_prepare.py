"""What a new machine needs is made at the same time, and one bar says how far both are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from e2e.prepare import Progress, Step, chains, follow, line, progress

from e2e import prepare

MISSING = ("etcd", "kube-apiserver", "kubectl")
LONG = [sys.executable, "-c", "import time; time.sleep(600)"]


def after(packages: int, *built: str, seconds: float = 0.0) -> Progress:
    """How far it is with so much done, and so many seconds since."""
    builds = chains(MISSING)
    for each in builds:
        each.built, each.seconds = tuple(name for name in each.missing if name in built), seconds
    return progress((packages, 200), builds)


def test_the_bar_is_empty_at_the_start_and_full_at_the_end() -> None:
    """And names what is being done: modules that share nothing are built at the same time."""
    begun = after(0)
    assert begun.share == 0
    assert begun.doing == "packages 0 of 200, etcd 0 s of about 40, kube-apiserver 0 s of about 215"
    ended = after(201, *MISSING)
    assert ended.share == 1 and ended.doing == ""
    assert line(ended, 300.0).startswith("█" * prepare.BAR_CELLS + " 100%  300 s")


def test_the_bar_never_goes_back() -> None:
    """Whether a step is quicker or slower than it was measured."""
    seen = [
        after(0),
        after(10, seconds=30),
        after(50, seconds=9000),
        after(50, "etcd"),
        after(200, "etcd", seconds=9000),
        after(200, "etcd", "kube-apiserver"),
        after(200, *MISSING),
    ]
    assert [each.share for each in seen[:3]] == sorted(each.share for each in seen[:3])
    assert after(50, "etcd", "kube-apiserver", seconds=1).share > after(50, "etcd", seconds=9000).share
    assert seen[-1].share == 1


@pytest.mark.process
def test_the_first_step_that_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the other is ended by the caller, with all that it started."""
    fails = Step(name="make dev", command=[sys.executable, "-c", "import sys; sys.exit('no disk')"]).start()
    lasts = Step(name="make control-plane", command=LONG).start()
    assert follow([fails, lasts], (), tmp_path) == 1
    shown = capsys.readouterr().err
    assert "no disk\nprepare: make dev failed" in shown and "control-plane" not in shown
    lasts.end()
    assert lasts.code() == -15


@pytest.mark.process
def test_where_nothing_is_missing_nothing_is_said_about_building(tmp_path: Path) -> None:
    """The folder that KUBEBUILDER_ASSETS names is believed; `make dev` has nothing to do."""
    for name in MISSING:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(prepare.ROOT / "e2e" / "prepare.py"), *MISSING],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path),
             "KUBEBUILDER_ASSETS": str(tmp_path)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and "building" not in done.stderr, done.stderr


@pytest.mark.process
def test_a_program_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """With the names that are."""
    done = subprocess.run(
        [sys.executable, str(prepare.ROOT / "e2e" / "prepare.py"), "kubeapi"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "known are etcd" in done.stderr
