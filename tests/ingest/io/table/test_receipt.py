"""Is it in the table?"""

from __future__ import annotations

import datetime
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import append_rows

from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.receipt import TableReceipts
from fairlead_ingest.rows.envelope import TIMESTAMP

NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("node", pa.string()), ("_topic", pa.string()), ("_id", pa.string()),
        ("_published_at", TIMESTAMP), ("_ingested_at", TIMESTAMP), ("_batch", pa.int64()), ("_date", pa.date32()),
    ]
)  # fmt: skip


def commit(table: Path, *ids: str, node: str = "edge-1") -> None:
    delta.ensure(table, SCHEMA)
    values = {"node": node, "_topic": "a/odd name=%", "_published_at": NOW, "_ingested_at": NOW, "_date": NOW.date()}
    append_rows(delta, table, [{**values, "id": name, "_id": "0a", "_batch": 3} for name in ids], SCHEMA)


def test_a_row_in_the_table_is_a_receipt(tmp_path):
    commit(tmp_path / "rows", "m1", "m2")
    found = TableReceipts(delta, tmp_path / "rows", "m2").find()
    assert found is not None
    assert (found["_topic"], found["_batch"], found["_id"], found["node"]) == ("a/odd name=%", 3, "0a", "edge-1")
    assert found["_published_at"] == "2026-11-20T12:00:00+00:00"


@pytest.mark.parametrize(("name", "node"), [("m3", None), ("m1", "edge-2")])
def test_what_is_not_there_gets_none(tmp_path, name, node):
    assert TableReceipts(delta, tmp_path / "rows", name, node).find() is None
    commit(tmp_path / "rows", "m1", "m2")
    assert TableReceipts(delta, tmp_path / "rows", name, node).wait(0.0) is None


def test_a_receipt_can_be_waited_for(tmp_path):
    commit(tmp_path / "rows", "m1")
    receipts = TableReceipts(delta, tmp_path / "rows", "m2")
    assert receipts.find() is None
    later = threading.Thread(target=commit, args=(tmp_path / "rows", "m2"))
    later.start()
    found = receipts.wait(30.0)
    later.join()
    assert found is not None and found["id"] == "m2"
