"""kill -9 at each step of a batch (fetch, write, commit, Spark's own commit): the table is exact afterwards.

Into tables of every format, with dead letters and a gap in the first of two batches.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.kills import batch_steps
from tests.support.tables.table_formats import FORMATS
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_messaging.client.io.sync_client import BulkClient

ROOT = Path(__file__).resolve().parents[4]
# Fewer would mean that the steps are no longer seen.
STEPS_MIN = 40


def steps(messaging: MessagingService, topic: str, sink: str, folder: Path, every: int) -> list[dict[str, Any]]:
    messaging.delete(topic)
    messaging.create(topic)
    payloads = [b"broken %d" % n if n in (2, 5) else upstream_message(n) for n in range(10)]
    messaging.publish(topic, payloads)
    with BulkClient(messaging.url) as client:
        generation = client.offsets(topic, "earliest").generation
    arguments = [messaging.url, topic, str(generation), sink, str(folder), "1", str(every)]
    ended = subprocess.run(
        [sys.executable, "-m", batch_steps.__name__, *arguments], capture_output=True, text=True, timeout=840, cwd=ROOT
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def check(found: list[dict[str, Any]]) -> None:
    assert [each["killed"] for each in found] == [True] * (len(found) - 1) + [False]
    for each in found:
        assert each["ended"] == 0, f"step {each['step']}:\n{each['trace']}"
        assert each["rows"] == [0, 1, 3, 4, 6, 7, 8, 9], each
        assert each["dead"] == ["broken 2", "broken 5"], each
        assert each["gaps"] == ["recreated"], each


@pytest.mark.faults
@pytest.mark.parametrize("sink", FORMATS)
def test_a_kill_at_any_step_costs_no_row_and_makes_none_twice(messaging, topic, sink, tmp_path):
    check(steps(messaging, topic, sink, tmp_path, every=23 if sink == "iceberg" else 11))


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_kill_at_each_single_step_costs_no_row_and_makes_none_twice(messaging, topic, tmp_path):
    found = steps(messaging, topic, "delta", tmp_path, every=1)
    check(found)
    assert len(found) > STEPS_MIN
