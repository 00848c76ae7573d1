"""kill -9 at each step between the rows' commit and the latest table's: it is exact afterwards."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.support.kills import latest_steps

# Fewer would mean that the steps are no longer seen.
STEPS_MIN = 120
EVERY = 13


@pytest.mark.faults
def test_a_kill_at_any_step_leaves_a_table_that_catches_up(tmp_path):
    """Each thirteenth step, of four commits of rows, a compaction, a vacuum and buckets that are split."""
    command = [sys.executable, "-m", latest_steps.__name__, str(tmp_path), str(EVERY)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each for each in found if not each["right"]] == [], ended.stderr
    assert [each["killed"] for each in found] == [True] * (len(found) - 1) + [False]
    assert found[-1]["step"] > STEPS_MIN
