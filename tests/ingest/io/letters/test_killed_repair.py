"""kill -9 at each third step of a repair, and run again: each letter is one row and has one mark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kills import repair_steps
from tests.support.kills.repair_steps import MESSAGES, UNFIT

ROOT = Path(__file__).resolve().parents[4]
# Fewer would mean that the steps are no longer seen.
STEPS_MIN = 6


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.process
def test_killed_anywhere_and_run_again_each_letter_is_one_row(tmp_path):
    arguments = [sys.executable, "-m", repair_steps.__name__, "delta", str(tmp_path), "3"]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["killed"] for each in found] == [True] * (len(found) - 1) + [False]
    assert len(found) > STEPS_MIN
    for each in found:
        assert "trace" not in each, each["trace"]
        assert each["rows"] == list(range(MESSAGES)), each
        assert each["letters"] == each["marks"] == sorted(UNFIT), each
