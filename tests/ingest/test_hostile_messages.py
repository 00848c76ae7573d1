"""The law: every message is a row or a dead letter, whatever its bytes, and no value of a row was changed.

Thousands through the code of the tasks itself, on stacks of every depth; and through real Spark, by mode and sink.
"""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types
from tests.support.tables.table_formats import ROWS_SCHEMA
from tests.support.topics import hostile_messages as hostile

from fairlead_ingest import errors
from fairlead_ingest.io.sink.spark_sink import StreamWriter
from fairlead_ingest.io.sink.task_writer import Written
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import ddl, envelope
from fairlead_ingest.rows.contract import Contract
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_wire.errors import Permanent

COLUMNS = types.StructType(
    [types.StructField(name, ddl.type_of(data_type)) for name, data_type in hostile.COLUMNS.items()]
)
TRIES_MAX = 8


def deeper(levels: int, call: Callable[[], Any]) -> Any:
    return call() if not levels else deeper(levels - 1, call)


def ids_in(table_format: str, folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for suffix in ("", tables.DEAD_LETTERS):
        found.update(
            tables.existing(tables.of(table_format), folder / f"rows{suffix}")
            .to_table(columns=["_id"])["_id"]
            .to_pylist()
        )
    return found


@pytest.mark.parametrize(
    ("seed", "levels"),
    [
        (4, 850),
        *(pytest.param(*each, marks=pytest.mark.verify) for each in [(1, 0), (2, 300), (3, 600)]),
    ],
)
def test_every_message_is_a_row_or_a_dead_letter_in_the_tasks_own_code(tmp_path, seed, levels):
    """Read, judged, sifted, written and committed as Spark's workers and driver do it."""
    table_format = tables.of("delta")
    for suffix, schema in (
        ("", ROWS_SCHEMA),
        (tables.DEAD_LETTERS, tables.DEAD_LETTERS_SCHEMA),
        (tables.GAPS, tables.GAPS_SCHEMA),
    ):
        table_format.ensure(tmp_path / f"rows{suffix}", schema)
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    writer = StreamWriter(
        table_format="delta",
        table=tmp_path / "rows",
        checkpoint_path=tmp_path / "checkpoint",
        on_expired="gap",
        evolves=True,
    )
    payloads = hostile.messages(seed, 3000)
    place = TopicOffset(generation=1, position="f" * 40, start_generation=1, start_position="", rows=len(payloads))
    end = Offsets(service="s", topics={"a/t": place})
    (tmp_path / "checkpoint" / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(end.to_dict())}")
    judge = Contract(columns=COLUMNS, mode="evolve").judge()
    now = datetime.datetime.now(datetime.UTC)

    def pages() -> Any:
        for first in range(0, len(payloads), 500):
            some = payloads[first : first + 500]
            ids = pa.array([number.to_bytes(20, "big") for number in range(first, first + len(some))], pa.binary())
            moments = pa.array([now] * len(some), envelope.TIMESTAMP)
            page = envelope.page("a/t", ids, moments, pa.array(some, pa.binary()), judge=judge)
            rows = pa.Table.from_batches([page]).drop_columns([envelope.TYPED, envelope.MISFIT])
            rows = rows.append_column("_ingested_at", moments)
            yield from rows.append_column("_date", pa.array([now.date()] * len(some), pa.date32())).to_batches()

    written = deeper(levels, lambda: writer.write(pages()))
    assert isinstance(written, Written)
    written.fields = {}  # growing the table is for Spark's turn below
    writer.commit([written], 0)
    assert ids_in("delta", tmp_path) == Counter(number.to_bytes(20, "big").hex() for number in range(len(payloads)))
    rows = tables.existing(table_format, tmp_path / "rows").to_table()
    assert rows.num_rows > len(payloads) / 4
    assert len(rows.to_pylist()) == rows.num_rows, "it can be read with Python"


@pytest.mark.parametrize(
    "mode", ["none", *(pytest.param(each, marks=pytest.mark.verify) for each in ("rescue", "freeze", "evolve"))]
)
def test_every_message_is_a_row_or_a_dead_letter_in_spark(run, messaging, topic, tmp_path, mode):
    """Another seed for each; twice the same batch is the same, and what typed columns say is what bodies say."""
    payloads = hostile.messages(10 + len(mode), 2500)
    messaging.configure(topic, ttl=3600)
    messaging.publish(topic, payloads)
    settings: dict[str, Any] = {"limits": {"page_rows": 400, "split_bytes": 1024 * 1024}}
    if mode != "none":
        settings["schema"] = str(tmp_path / "schema.json")
        Path(settings["schema"]).write_text(json.dumps({"mode": mode, "columns": hostile.COLUMNS}))
    for _ in range(TRIES_MAX):
        try:
            run(**settings)
            break
        except Permanent as error:
            assert (mode, error.code) == ("evolve", errors.SCHEMA_GREW), error
    first = ids_in("delta", tmp_path)
    assert (len(first), set(first.values())) == (len(payloads), {1})
    rows = tables.existing(tables.of("delta"), tmp_path / "rows").to_table().to_pylist()
    assert len(rows) > len(payloads) / 10
    for row in rows if mode != "none" else ():
        for name, data_type in hostile.COLUMNS.items():
            assert_unchanged(row, name, data_type)
    shutil.rmtree(tmp_path / "checkpoint")
    run(**settings)
    assert ids_in("delta", tmp_path) == first


def assert_unchanged(row: dict[str, Any], name: str, data_type: str) -> None:
    """A typed value is what the body says, judged by another reader of JSON; what is missing is in `_rescued`."""
    body = json.loads(row["body"], parse_float=decimal.Decimal, parse_int=decimal.Decimal) if row["body"] else None
    said: Any = body.get(name) if isinstance(body, dict) else None
    held = row[name]
    if held is None:
        assert said is None or row.get("_rescued") == row["body"], (name, row["body"][:300])
        return
    about = (name, held, row["body"][:300])
    if data_type in ("tinyint", "int", "bigint"):
        assert held == said, about
    elif data_type.startswith("decimal"):
        assert held == decimal.Decimal(said), about
    elif data_type == "double":
        assert held == float(said), about
        assert said % 1 or held == said or "e" in str(said).lower() or "." in str(said), about
    elif data_type == "float":
        [nearest] = struct.unpack("<f", struct.pack("<f", float(said)))
        assert held == nearest, about
    elif data_type == "string" and isinstance(said, str):
        assert held == said, about
    elif data_type == "date":
        assert held == datetime.date(*map(int, said.split("-"))), about
    elif data_type == "array<int>":
        assert held == said, about
