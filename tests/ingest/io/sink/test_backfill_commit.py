"""Backfills beside each other: what two bring, or one that was killed and run again, is in the table once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kills import backfill_steps
from tests.support.kills.backfill_steps import BROKEN, MESSAGES

ROOT = Path(__file__).resolve().parents[4]
# Fewer would mean that the steps are no longer seen.
KILLS_MIN = 6


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.process
@pytest.mark.parametrize(("kind", "every"), [("delta", 7), ("iceberg", 23)])
def test_two_at_once_one_killed_anywhere_and_run_again_bring_each_message_once(
    kind: str, every: int, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-m", backfill_steps.__name__, kind, str(tmp_path), str(every)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    killed = [each for each in found if each["killed"]]
    assert [each["step"] for each in killed] == list(range(1, killed[0]["of"] + 1, every))
    assert len(killed) >= KILLS_MIN
    for each in found:
        assert not each["ended"], each["trace"]
        assert each["rows"] == sorted(set(range(MESSAGES)) - BROKEN), each
        assert each["letters"] == sorted(BROKEN), each
