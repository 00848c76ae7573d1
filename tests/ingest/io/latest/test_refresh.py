"""A latest table equals the model, whatever was done to its rows and to itself before."""

from __future__ import annotations

import itertools
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from tests.support import latest_rows
from tests.support.latest_rows import Row, append, content, model

from fairlead_ingest import errors
from fairlead_ingest.io.latest import fold, latest_table, row_files
from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.io.table import delta
from fairlead_ingest.latest import buckets
from fairlead_ingest.latest.definition import Definition

BY_NODE = Definition(key=("node",))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "rows", tmp_path / "rows_latest"


def version(table: Path) -> int:
    found = latest_table.look(table)
    assert found is not None
    return found.version


def test_each_refresh_folds_what_the_rows_got_since(places: tuple[Path, Path]) -> None:
    """Nothing new: nothing is committed."""
    rows, latest = places
    assert refresh(rows, latest, BY_NODE) is None
    append(rows, [Row(node="a", number=1, value=1), Row(node="b", number=2, value=2)])
    first = refresh(rows, latest, BY_NODE)
    assert first is not None
    assert (first.mark.version, first.mark.keys, first.changed) == (1, 2, 2)
    assert "new" in first.reason
    append(rows, [Row(node="a", number=3, value=3), Row(node="c", number=4, value=4)])
    second = refresh(rows, latest, BY_NODE)
    assert second is not None
    assert (second.mark.version, second.mark.keys, second.changed, second.reason) == (2, 3, 2, "")
    assert {key[0]: found[1] for key, found in content(latest, BY_NODE).items()} == {"a": 3, "b": 2, "c": 4}
    before = version(latest)
    third = refresh(rows, latest, BY_NODE)
    assert third is not None
    assert (third.changed, third.rows_read, version(latest)) == (0, 0, before)


DEFINITIONS = [
    Definition(key=("node",)),
    Definition(key=("node", "source"), delete_when={"op": ("delete",)}),
    Definition(key=("node",), order_by=("enqueued_at",), columns=("value",)),
    Definition(key=("value",), order_by=("value",)),
]
ROW = st.builds(
    Row,
    node=st.sampled_from(["a", "b", "c/../d", "é\u202e", "x" * 5000, "", "\x1f"]),
    source=st.sampled_from([None, "", "m"]),
    enqueued=st.one_of(st.none(), st.integers(-50, 200)),
    value=st.integers(0, 3),
    op=st.sampled_from([None, "delete", "upsert"]),
    topic=st.sampled_from(["plant/a", "plant/b"]),
)
STEP = st.one_of(
    st.lists(ROW, max_size=6),
    st.sampled_from(["refresh", "compact", "again", "repeat", "delete", "restore", "lost", "sweep"]),
)


@settings(max_examples=60)
@given(st.sampled_from(DEFINITIONS), st.lists(STEP, min_size=1, max_size=10))
def test_whatever_happens_it_equals_the_model(
    tmp_path_factory: pytest.TempPathFactory, definition: Definition, steps: list[list[Row] | str]
) -> None:
    """Rows in any order and more than once; compacted, deleted, restored; the latest table lost, made again."""
    rows, latest = (tmp_path_factory.mktemp("t") / name for name in ("rows", "rows_latest"))
    numbers = itertools.count(1)
    held: list[Row] = []
    append(rows, [])
    versions: dict[int, list[Row]] = {1: []}
    for step in steps:
        if isinstance(step, list):
            news = [_numbered(row, next(numbers)) for row in step]
            append(rows, news)
            held = [*held, *news]
        elif step == "repeat":
            append(rows, held[:2])  # as a backfill of what somebody deleted and what is there again by then
        elif step in ("refresh", "again"):
            refresh(rows, latest, definition, again=step == "again")
        elif step == "compact":
            DeltaTable(str(rows)).optimize.compact()
        elif step == "sweep":
            DeltaTable(str(rows)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        elif step == "delete":
            DeltaTable(str(rows)).delete("value = 1")
            held = [row for row in held if row.value != 1]
        elif step == "restore" and "sweep" not in steps:
            earlier = sorted(each for each in versions if each < DeltaTable(str(rows)).version())
            for back in earlier[len(earlier) // 2 :][:1]:
                DeltaTable(str(rows)).restore(back)
                held = versions[back]
        elif step == "lost" and latest_table.look(latest) is not None:
            DeltaTable(str(latest)).delete()
        versions[DeltaTable(str(rows)).version()] = held
    found = refresh(rows, latest, definition)
    assert found is not None
    assert found.mark.version == DeltaTable(str(rows)).version()
    assert content(latest, definition) == model(held, definition)


def _numbered(row: Row, number: int) -> Row:
    return Row(**{**{name: getattr(row, name) for name in Row.__slots__}, "number": number})
