"""What a new machine needs is made at the same time, and one bar says how far both are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.demo.record import started_at
from e2e.prepare import Progress, Step, chains, follow, line, progress
from tests.support.processes import wait_until

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


def test_the_line_fits_the_terminal() -> None:
    """One that is broken cannot be renewed: each look would add two lines."""
    assert len(line(after(0), 5.0)) > 80
    for columns in (20, 80):
        shown = line(after(0), 5.0, columns)
        assert len(shown) == columns - 1 and shown.endswith("…")
    assert line(after(0), 5.0, 400) == line(after(0), 5.0)


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
