"""What Spark's workers collect after every task."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fairlead_ingest.io import worker_memory

# As Spark's daemon does with a worker between two tasks.
WORKER = """
import gc, os
os.environ[{name!r}] = "1"
from fairlead_ingest.io import worker_memory
from fairlead_ingest.io.sink import spark_sink
before = len(gc.get_objects())
worker_memory.settle()
first = gc.get_freeze_count()
rest = len(gc.get_objects())
kept = [[each] for each in range(50)]
worker_memory.settle()
print(before, first, rest, gc.get_freeze_count())
"""


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.process
@pytest.mark.verify
def test_what_a_worker_has_imported_is_set_aside_once():
    program = WORKER.format(name=worker_memory.REUSED)
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    before, first, rest, last = (int(each) for each in said.split())
    assert first > before * 0.9 and rest < before * 0.1
    assert last <= first


def test_other_programs_are_left_alone(monkeypatch):
    monkeypatch.delenv(worker_memory.REUSED, raising=False)
    before = gc.get_freeze_count()
    worker_memory.settle()
    assert gc.get_freeze_count() == before
