"""One fold; that it gives the right table is in test_refresh.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tables.latest_rows import Row, append

from fairlead_ingest.io.latest import latest_table, refresh, row_files
from fairlead_ingest.io.latest.fold import Fold, LatestFiles, by_bucket
from fairlead_ingest.io.latest.row_files import RowFiles
from fairlead_ingest.latest.definition import LatestDefinition

BY_NODE = LatestDefinition(key=("node",))


def folded(rows: Path, latest: Path, held: LatestFiles | None = None) -> tuple[Fold, LatestFiles]:
    source = refresh.open_source(rows)
    assert source is not None
    held = held or LatestFiles(table=latest, schema=BY_NODE.kept(source.schema))
    return Fold(RowFiles(rows, source.files(), source.schema), held, BY_NODE), held


def test_rows_that_are_older_write_nothing(tmp_path):
    rows, latest = tmp_path / "rows", tmp_path / "latest"
    append(rows, [Row(node="a", number=2), Row(node="b", number=3)])
    fold, held = folded(rows, latest)
    first = fold.run()
    assert (len(first.added), first.removed, first.keys, first.changed) == (1, [], 2, 2)
    held = LatestFiles(table=latest, schema=held.schema, files=by_bucket(first.added), keys=2)
    append(rows, [Row(node="a", number=1)])
    again = folded(rows, latest, held)[0].run()
    assert (again.added, again.removed, again.keys, again.changed) == ([], [], 0, 0)


def test_a_bucket_of_two_files_becomes_one(tmp_path):
    rows, latest = tmp_path / "rows", tmp_path / "latest"
    append(rows, [Row(node="a", number=2)])
    first = folded(rows, latest)[0].run()
    source = refresh.open_source(rows)
    assert source is not None
    schema = BY_NODE.kept(source.schema)
    twice = [*first.added, row_files.write(latest, 0, row_files.read(latest, first.added, schema))]
    held = LatestFiles(table=latest, schema=schema, files=by_bucket(twice), keys=2)
    healed = Fold(RowFiles(rows, [], source.schema), held, BY_NODE).run()
    assert (healed.removed, healed.keys, [each.rows for each in healed.added]) == (twice, -1, [1])


def test_who_watches_may_end_it_and_nothing_is_committed(tmp_path):
    rows, latest = tmp_path / "rows", tmp_path / "latest"
    append(rows, [Row(node="a", number=2)])

    def on_rows(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refresh.refresh(rows, latest, BY_NODE, on_rows=on_rows)
    state = latest_table.open_state(latest)
    assert state is not None
    assert (state.version, state.files) == (0, [])
