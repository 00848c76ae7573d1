"""Processes that tests start end with the test run, and not before."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.processes import Running, start, wait_until


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
def test_children_left_behind_are_swept(tmp_path: Path) -> None:
    """A program's own children end with it."""
    program = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    running = start("parent", [sys.executable, "-c", program], tmp_path / "parent.log")
    child = int(wait_until("it has a child", lambda: running.log.read_text().strip(), seconds=100))
    running.kill()
    wait_until("the child is gone", lambda: not Path(f"/proc/{child}/cwd").exists(), seconds=100)
