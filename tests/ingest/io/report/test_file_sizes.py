"""Files of real tables by size, and what opening one takes."""

from __future__ import annotations

import datetime
import itertools
import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.store_proxy import StoreProxy
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest.io import table_report
from fairlead_ingest.io.table.tables import UNNUMBERED, of

SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


@pytest.mark.parametrize("sink", FORMATS)
def test_files_of_a_folder(tmp_path: Path, sink: str) -> None:
    """Only those of the newest version; the clock is asked before and after each opening."""
    form, table = format_of(sink, tmp_path), tmp_path / "rows"
    form.ensure(table, SCHEMA)
    for day in (20, 20, 21):
        writing = form.writing(table)
        row = {"_id": "a", "_topic": "a/t", "_date": datetime.date(2026, 11, day)}
        writing.add(pa.Table.from_pylist([row], schema=SCHEMA))
        form.append(table, writing.close(), UNNUMBERED)
    form.writing(table).add(pa.Table.from_pylist([row], schema=SCHEMA))
    ticks = itertools.count(0.0, 0.25)
    found = table_report.measure_files(form, table, lambda: next(ticks))
    assert (found.files, found.compacted, found.open_seconds, found.opened) == (3, 2, 0.25, 3)
    assert list(found.by_day) == [("2026-11-20", 2), ("2026-11-21", 1)]
    assert found.bytes == sum(path.stat().st_size for path in table.rglob("*.parquet"))


def test_a_file_that_was_vacuumed_meanwhile_is_left_out(tmp_path: Path) -> None:
    form, table = of("delta"), tmp_path / "rows"
    form.ensure(table, SCHEMA)
    assert table_report.measure_files(form, table, lambda: 0.0).files == 0
    writing = form.writing(table)
    row = {"_id": "a", "_topic": "a/t", "_date": datetime.date(2026, 11, 20)}
    writing.add(pa.Table.from_pylist([row], schema=SCHEMA))
    form.append(table, writing.close(), UNNUMBERED)
    for path in table.rglob("*.parquet"):
        path.unlink()
    found = table_report.measure_files(form, table, lambda: 0.0)
    assert (found.files, found.open_seconds) == (0, None)


@pytest.mark.process
@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_of_a_store_only_the_ends_of_files_are_read(tmp_path: Path, sink: str) -> None:
    """What opening costs a reader, not reading; names in the store are quoted. One that is gone is left out."""
    schema = pa.schema([*SCHEMA, ("payload", pa.binary())])
    row = {"_topic": "a/we ird%2F=ü", "_date": datetime.date(2026, 11, 20), "payload": os.urandom(1024 * 1024)}
    with ObjectStore(tmp_path) as store, StoreProxy(store, tmp_path) as proxy:
        form, table = format_of(sink, tmp_path), proxy.place("rows")
        form.ensure(table, schema)
        for name in ("a", "b"):
            writing = form.writing(table)
            writing.add(pa.Table.from_pylist([{"_id": name, **row}], schema=schema))
            form.append(table, writing.close(), UNNUMBERED)
        before = proxy.bytes_read()
        found = table_report.measure_files(form, table, lambda: 0.0)
        assert (found.files, found.opened, found.compacted) == (2, 2, 1) and found.bytes > 2 * 1024 * 1024
        assert proxy.bytes_read() - before < 1024 * 1024
        next(path for path in store.content.rglob("*.parquet")).unlink()
        found = table_report.measure_files(form, table, lambda: 0.0)
        assert (found.files, found.opened) == (1, 1)
