"""The clock that tests move."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.fake_clock import FakeClock

YEAR = 365.25 * 86_400.0
ASK = """
import ssl, sys, time, datetime
for line in sys.stdin:
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)
"""


@pytest.mark.process
def test_it_moves_while_a_process_runs(tmp_path: Path) -> None:
    """Its wall clock alone."""
    clock = FakeClock(tmp_path)
    environ = {**os.environ, **clock.environ}
    command = [sys.executable, "-c", ASK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as running:
        assert running.stdin is not None and running.stdout is not None

        def ask() -> list[float]:
            assert running.stdin is not None and running.stdout is not None
            running.stdin.write("\n")
            running.stdin.flush()
            return [float(each) for each in running.stdout.readline().split()]

        assert abs(ask()[0] - time.time()) < YEAR / 10
        clock.move(days=3653)
        wall, also, monotonic = ask()
        assert wall - time.time() == pytest.approx(10 * YEAR, rel=0.1) and abs(wall - also) < YEAR / 10
        assert abs(monotonic - time.monotonic()) < YEAR / 10
        clock.set(datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC))
        assert ask()[0] == pytest.approx(86_400, abs=YEAR / 10)
        running.stdin.close()
