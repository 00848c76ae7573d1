"""Credentials of a role, given for the token of a web identity as a Pod has one: asked for, renewed, ended in mid work.

A program of its own, for the libraries read its environment; the store beneath is a real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.role_store import ROLE, RoleStore

from fairlead_ingest.io.table import tables

ROOT = Path(__file__).resolve().parents[4]
# Puts in one row for each line it reads, once, as often as it takes; says what was in its way.
PROGRAM = """
import datetime, sys, time
import pyarrow as pa
from fairlead_ingest import errors
from fairlead_ingest.io.sink import batch_commit
from fairlead_ingest.io.table import delta
from fairlead_ingest.table import store_path

table = store_path.parse("s3://tables/rows")
SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])

def put(name):
    delta.ensure(table, SCHEMA)
    writing = delta.writing(table)
    writing.add(pa.table([[name], ["n/a"], [datetime.date(2026, 11, 20)]], schema=SCHEMA))
    batch_commit.append_backfill(delta, table, writing.close(), [])

print("ready", flush=True)
for line in sys.stdin:
    waits = 0
    while True:
        try:
            put(line.strip())
            break
        except (errors.Stop, errors.Wait) as error:
            waits += 1
            if waits == 1:
                print("waits", error, flush=True)
            time.sleep(0.05)
    print("in", line.strip(), flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "store") as running:
        yield running


@pytest.fixture
def role(store: ObjectStore, tmp_path: Path) -> Iterator[RoleStore]:
    with RoleStore(store, tmp_path) as running:
        yield running


class Writer:
    def __init__(self, role: RoleStore) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**inherited, **role.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._running.stdout is not None
        return self._running.stdout.readline().strip()

    def put(self, name: str) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(name + "\n")
        self._running.stdin.flush()

    def end(self) -> None:
        assert self._running.stdin is not None and self._running.stdout is not None
        self._running.stdin.close()
        self._running.wait(60)
        self._running.stdout.close()

    def kill(self) -> None:
        self._running.kill()
        self._running.wait()


@pytest.fixture
def writer(role: RoleStore) -> Iterator[Writer]:
    running = Writer(role)
    yield running
    running.kill()


@pytest.mark.process
@pytest.mark.verify
def test_credentials_that_end_are_renewed_and_each_row_is_in_once(store, role, writer):
    """By the token in the file as it is now; and refused as long as that is an old one."""
    writer.put("0")
    assert writer.line() == "in 0"
    # The store ends them before their time.
    role.control(end=True)
    writer.put("1")
    assert writer.line() == "in 1"
    assert role.control()["ended"] >= 1
    # They live shorter than any request may take.
    role.control(end=True, life=1)
    for name in ("2", "3"):
        writer.put(name)
    seen = [writer.line()]
    while seen[-1] != "in 3":
        seen.append(writer.line())
    # The token has ended, too; the next one is put into the file later.
    role.control(end=True, life=900, token="token-2")
    writer.put("4")
    assert "FAIRLEAD_STORE_DENIED" in writer.line()
    role.token.write_text("token-2")
    assert writer.line() == "in 4"
    assert role.control()["given"]["token-2"] >= 1
    writer.end()
    rows = tables.existing(tables.of("delta"), store.place("rows")).to_table()
    assert sorted(rows["_id"].to_pylist()) == ["0", "1", "2", "3", "4"]


@pytest.mark.process
@pytest.mark.verify
def test_an_identity_that_is_not_taken_is_said_in_a_sentence(role, writer):
    role.control(refuses="InvalidIdentityToken")
    writer.put("0")
    said = writer.line()
    assert "FAIRLEAD_STORE_DENIED: s3://tables/rows" in said and f"no credentials for the role {ROLE}" in said
    assert "InvalidIdentityToken" in said and str(role.token) in said and "token-1" not in said
    role.control(refuses="")
    assert writer.line() == "in 0"
