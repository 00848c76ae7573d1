"""A job that keeps a latest table: through Spark, over restarts, a grown schema, a backfill and a restored table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.support.topics.job_settings import job_settings
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import backfill

LATEST = {"key": ["asset"], "order_by": ["revision"], "delete_when": {"op": ["d"]}, "seconds": 0.0}


def message(number: int, **body: Any) -> bytes:
    return upstream_message(number, body=body)


def held(table: Path) -> dict[str | None, dict[str, Any]]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    found = {row["asset"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.verify
def test_the_newest_row_of_each_key_is_kept_through_all_that_happens_to_the_rows(
    run, spark, messaging, topic, tmp_path
):
    """By a column of the body, with keys that are deleted; each run is a job that is started again."""
    columns = {"asset": "string", "revision": "bigint", "op": "string"}
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"mode": "rescue", "columns": columns}))
    given = {"schema": str(schema), "latest": LATEST}
    rows, latest = tmp_path / "rows", tmp_path / "rows_latest"
    messaging.publish(topic, [message(1, asset="a", revision=5), message(2, asset="b", revision=1), b"broken"])
    run(**{**given, "latest": {"key": []}})
    assert not latest.exists()
    messaging.publish(
        topic,
        [
            message(3, asset="a", revision=4),
            message(4, asset="b", revision=2, op="d"),
            message(5, asset="../é", revision=1),
            message(6, revision=9),
            message(7, asset=7, revision="no"),
        ],
    )
    run(**given)
    found = held(latest)
    assert {asset: row["sequence"] for asset, row in found.items()} == {"a": 1, "b": 4, "../é": 5, None: 6, "7": 7}
    assert [asset for asset, row in found.items() if row["_deleted"]] == ["b"]

    schema.write_text(json.dumps({"mode": "rescue", "columns": {**columns, "place": "string"}}))
    messaging.publish(topic, [message(8, asset="b", revision=3, place="hall 1"), message(9, asset="c", revision=1)])
    run(**given)
    found = held(latest)
    assert (found["b"]["place"], found["b"]["_deleted"], found["a"]["place"]) == ("hall 1", False, None)

    # Rows are taken back and filled in again; each time the latest table is that of what is there.
    before = DeltaTable(str(rows)).version()
    DeltaTable(str(rows)).delete("asset = 'b' AND revision = 3")
    run(**given)
    assert held(latest)["b"]["_deleted"]
    settings = job_settings(tmp_path, messaging.url, topic, **given)
    backfill.run(spark, settings, settings.jobs()[0], from_ms=None, until_ms=None, into=rows)
    DeltaTable(str(rows)).optimize.compact()
    run(**given)
    assert held(latest)["b"]["revision"] == 3
    DeltaTable(str(rows)).restore(before - 1)
    run(**given, checkpoint=str(tmp_path / "another"))
    assert {asset: row["revision"] for asset, row in held(latest).items()} == {
        "a": 5, "b": 3, "c": 1, "../é": 1, None: 9, "7": None,
    }  # fmt: skip


@pytest.mark.verify
def test_a_key_that_the_rows_do_not_have_stops_before_a_table_is_made(run, messaging, topic, tmp_path):
    messaging.publish(topic, [message(1)])
    with pytest.raises(errors.Stop, match=r"\[latest\] key: the rows have no column 'nod'; there are payload, _topic"):
        run(format="raw", latest={"key": ["nod"]})
    assert not (tmp_path / "rows").exists()
    run(format="raw", latest={"key": ["_topic"]})
    assert DeltaTable(str(tmp_path / "rows_latest")).to_pyarrow_table().num_rows == 1
