"""What threads of pyarrow hold is waited for at the end of a process, and only as long as that makes sense.

tests/ingest/io/table/test_store_filesystem.py ends a process whose files are still being read.
"""

from __future__ import annotations

import os
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairlead_ingest.io.table import arrow_threads
from fairlead_ingest.io.table.arrow_threads import _Held, reader


@pytest.mark.slow
def test_the_end_waits_until_the_last_is_gone(monkeypatch):
    held = _Held()
    things = [memoryview(b"one"), memoryview(b"two")]
    for each in things:
        held.add(each)
    del each
    ending = threading.Thread(target=held.wait)
    ending.start()
    things.pop()
    assert ending.is_alive()
    things.pop()
    ending.join(60)
    assert not ending.is_alive()
    # What the program itself holds to its end keeps nothing waiting for ever.
    monkeypatch.setattr(arrow_threads, "END_SECONDS", 0.01)
    kept = memoryview(b"kept")
    held.add(kept)
    held.wait()


def test_what_is_gone_is_forgotten(monkeypatch):
    monkeypatch.setattr(arrow_threads, "PRUNED_AT", 4)
    held = _Held()
    for _ in range(100):
        held.add(memoryview(b"gone"))
    assert len(held._known) <= 4


def test_a_file_in_memory_is_read_and_let_go_of(monkeypatch):
    held = _Held()
    monkeypatch.setattr(arrow_threads, "_held", held)
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    assert pq.ParquetFile(reader(out.getvalue())).read()["a"].to_pylist() == [1, 2]
    until = time.monotonic() + 60
    while any(each() is not None for each in held._known) and time.monotonic() < until:
        time.sleep(0.01)
    assert [each() for each in held._known] == [None]


@pytest.mark.process
def test_a_forked_process_waits_for_nothing_of_its_parents():
    kept = memoryview(b"of the parent")
    arrow_threads._held.add(kept)
    child = os.fork()
    if not child:
        os._exit(len(arrow_threads._held._known))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
