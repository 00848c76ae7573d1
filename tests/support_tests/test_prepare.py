"""What a new machine needs is made at the same time, and one bar says how far both are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.controlplane import build
from e2e.demo.record import started_at
from e2e.prepare import Progress, Step, chains, follow, line, progress
from tests.support.processes import wait_until

from e2e import prepare

MISSING = ("etcd", "kube-apiserver", "kubectl")
LONG = [sys.executable, "-c", "import time; time.sleep(600)"]


def after(packages: int, *built: str, compiled: int = 0) -> Progress:
    """How far it is with so much done, and so many of 2,000 Go packages of each that is being built."""
    builds = chains(MISSING)
    for each in builds:
        each.built = tuple(name for name in each.missing if name in built)
        each.seen = build.Compilation(packages=2000, compiled=compiled)
    return progress((packages, 200), builds)


def test_the_bar_is_empty_at_the_start_and_full_at_the_end() -> None:
    """And names what is being done: modules that share nothing are built at the same time."""
    begun = after(0)
    assert begun.share == 0
    assert begun.doing == "packages 0 of 200, etcd: 0 of 2000 packages, kube-apiserver: 0 of 2000 packages"
    ended = after(201, *MISSING)
    assert ended.share == 1 and ended.doing == ""
    assert line(ended, 300.0).startswith("█" * prepare.BAR_CELLS + " 100%  300 s")


def test_what_is_left_follows_from_the_speed_of_this_machine() -> None:
    """A machine that is four times as slow is told four times as much; in the first minute there is no guess."""
    halfway = Progress(done=50, total=100, doing="etcd")
    assert "left" not in line(halfway, 59.0)
    assert "100 s  about 100 s left, etcd" in line(halfway, 100.0)
    assert "400 s  about 400 s left, etcd" in line(halfway, 400.0)


def test_the_line_fits_the_terminal() -> None:
    """One that is broken cannot be renewed: each look would add two lines."""
    assert len(line(after(0), 5.0)) > 80
    for columns in (20, 80):
        shown = line(after(0), 5.0, columns)
        assert len(shown) == columns - 1 and shown.endswith("…")
    assert line(after(0), 5.0, 400) == line(after(0), 5.0)


def test_the_bar_never_goes_back() -> None:
    """Nor does it stand: it follows the packages that were compiled, and no clock."""
    seen = [
        after(0),
        after(10, compiled=30),
        after(50, compiled=2000),
        after(50, "etcd", compiled=2000),
        after(200, "etcd", compiled=2000),
        after(200, "etcd", "kube-apiserver"),
        after(200, *MISSING),
    ]
    shares = [each.share for each in seen]
    assert shares == sorted(set(shares)) and shares[-1] == 1


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


def machine(folder: Path, *, make: str, java: bool = True) -> dict[str, str]:
    """An environment in which nothing has to be built, and with this script for make: the real one may install."""
    scripts = {"make": make} | ({"java": "echo 'openjdk version \"17\"' >&2"} if java else {})
    for name, script in {**dict.fromkeys(MISSING, ""), **scripts}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder), "KUBEBUILDER_ASSETS": str(folder)}


AS_BY_A_PERSON = """
import os, signal, sys
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Starts a program with every signal heard; what ignores one (nohup, `&` in a script) passes that on."""
PREPARE = [sys.executable, str(prepare.ROOT / "e2e" / "prepare.py"), *MISSING]


@pytest.mark.process
def test_where_nothing_is_missing_nothing_is_said_about_building(tmp_path: Path) -> None:
    """The folder that KUBEBUILDER_ASSETS names is believed; `make dev` speaks for itself, and its end is ours."""
    environ = machine(tmp_path, make='echo "asked: $*"; exit 3')
    done = subprocess.run(PREPARE, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (3, "asked: --no-print-directory dev\n", "")


@pytest.mark.process
def test_without_java_nothing_is_begun(tmp_path: Path) -> None:
    """That is said at once, and not after minutes of building."""
    environ = machine(tmp_path, make="echo begun", java=False)
    done = subprocess.run(PREPARE, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith("prepare: needs Java") and "begun" not in done.stdout


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupt_ends_what_runs_and_says_so_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and a closed terminal alike; nothing is left running."""
    child, draft = tmp_path / "child", tmp_path / "draft"
    environ = machine(tmp_path, make=f"/bin/sleep 600 & echo $! >{draft}; /bin/mv {draft} {child}; wait")
    running = subprocess.Popen(
        [sys.executable, "-c", AS_BY_A_PERSON, *PREPARE],
        env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until("make runs", child.exists, seconds=120)
        pid = int(child.read_text())
        running.send_signal(number)
        _, said = running.communicate(timeout=120)
    finally:
        running.kill()
    assert (running.returncode, said) == (130, "\nprepare: interrupted; what was finished is kept\n")
    wait_until("its child has ended", lambda: started_at(pid) is None, seconds=120)


@pytest.mark.process
def test_a_program_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """With the names that are."""
    done = subprocess.run(
        [sys.executable, str(prepare.ROOT / "e2e" / "prepare.py"), "kubeapi"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "known are etcd" in done.stderr
