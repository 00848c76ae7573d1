"""Processes of tests end, tell their log, and are asked with deadlines."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.processes import Running, Unmet, free_ports, shortened, start, wait_until


def test_a_condition_that_never_holds_says_what_was_seen() -> None:
    """The failure names the condition, the time, the last answer and the state."""
    with pytest.raises(Unmet, match=r"(?s)the tide turns: not within 0\.01 s; it answered 0\nlow water"):
        wait_until("the tide turns", lambda: 0, seconds=0.01, every=0.001, describe=lambda: "low water")


def test_a_condition_may_fail_while_things_come_up() -> None:
    """Connection refused counts as not yet."""
    answers: Iterator[Exception | str] = iter([ConnectionRefusedError("no"), AssertionError("not yet"), "here"])

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_until("it answers", ask, seconds=5, every=0.001) == "here"


@pytest.mark.process
def test_an_end_by_itself_ends_the_wait_at_once(tmp_path: Path) -> None:
    """No test waits a minute for a program that has already given up."""
    running = start("sinker", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "sinker.log")
    running.process.wait(120)
    with pytest.raises(Unmet, match="sinker ended by itself"):
        wait_until("it is ready", running.require_alive, seconds=100)


def test_free_ports_are_all_different() -> None:
    """Three at once never collide with each other."""
    assert len(set(free_ports(20))) == 20


@pytest.mark.process
def test_a_program_that_ends_by_itself_shows_its_log(tmp_path: Path) -> None:
    """The tail of the log is in the failure text."""
    running = start("sinker", [sys.executable, "-c", "print('glug'); raise SystemExit(3)"], tmp_path / "sinker.log")
    wait_until("it ends", lambda: not running.alive, seconds=100)
    with pytest.raises(Unmet, match=r"(?s)sinker ended by itself.*exited with 3.*glug"):
        running.require_alive()


@pytest.mark.process
def test_a_program_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """An async test starts things in a pool whose threads end with its loop; what is shared must stay."""
    found: list[Running] = []
    asking = threading.Thread(target=lambda: found.append(start("sleeper", ["sleep", "600"], tmp_path / "log")))
    asking.start()
    asking.join()
    with pytest.raises(subprocess.TimeoutExpired):
        found[0].process.wait(0.3)
    found[0].kill()


@pytest.mark.process
def test_stop_is_polite_and_kill_is_not(tmp_path: Path) -> None:
    """SIGTERM first; a program that handles it ends with its own code; kill -9 ends as signal 9."""
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
    polite, rude = (start(name, [sys.executable, "-c", program], tmp_path / f"{name}.log") for name in ("a", "b"))
    for running in (polite, rude):
        wait_until("it is up", lambda running=running: "up" in running.log.read_text(), seconds=100)  # type: ignore[misc]
    assert polite.stop() == 0
    rude.kill()
    assert rude.process.returncode == -9


@pytest.mark.process
def test_children_left_behind_are_swept(tmp_path: Path) -> None:
    """A program's own children end with it."""
    program = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    running = start("parent", [sys.executable, "-c", program], tmp_path / "parent.log")
    child = int(wait_until("it has a child", lambda: running.log.read_text().strip(), seconds=100))
    running.kill()
    wait_until("the child is gone", lambda: not Path(f"/proc/{child}/cwd").exists(), seconds=100)


def test_a_long_log_line_keeps_both_ends() -> None:
    """A traceback in a JSON line is useless without its last words."""
    assert shortened("a" * 9 + "b" * 9, 6) == "aaa … bbb"
    assert shortened("short", 6) == "short"
