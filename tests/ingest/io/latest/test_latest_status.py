"""How a latest table stands."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from deltalake import DeltaTable
from tests.support.tables.latest_rows import Row, append

from fairlead_ingest.io.latest.refresh import latest_status, refresh
from fairlead_ingest.latest.definition import LatestDefinition


def test_it_says_how_many_keys_and_how_far_behind(tmp_path: Path) -> None:
    """From the two tables; fit for JSON."""
    rows, latest = tmp_path / "rows", tmp_path / "rows_latest"
    definition = LatestDefinition(key=("node",), delete_when={"op": ("d",)})
    append(rows, [Row(node="a", number=1), Row(node="b", number=2, op="d")])
    now = datetime.datetime.now(datetime.UTC)
    assert latest_status(rows, now) == {"table": str(latest), "state": "no table yet"}
    refresh(rows, latest, definition)
    append(rows, [Row(node="c", number=3)])
    facts = latest_status(rows, now + datetime.timedelta(seconds=60))
    json.dumps(facts)
    assert (facts["state"], facts["keys"], facts["deleted_keys"], facts["versions_behind"]) == ("ok", 1, 1, 1)
    assert 0 < facts["last_refresh_seconds"] < 100
    DeltaTable(str(latest)).delete("node = 'a'")
    assert latest_status(rows, now)["state"] == "to be built"
