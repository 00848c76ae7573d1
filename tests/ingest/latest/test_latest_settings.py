"""`[latest]` of a job."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ingest.test_settings import BASE

from fairlead_ingest.latest.definition import LatestDefinition
from fairlead_ingest.settings import IngestSettings
from fairlead_wire.validation.model import MODELS


@pytest.mark.parametrize(
    ("latest", "reason"),
    [
        ({"key": "node"}, "latest.key: "),
        ({"key": [""]}, "latest.key: "),
        ({"key": ["a", "a"]}, "latest.key: one is named twice"),
        ({"key": ["_bucket"]}, "latest.key: _bucket is the latest table's own"),
        ({"key": ["x" * 256]}, "latest.key: names have 1 to 255"),
        ({"key": ["node"], "seconds": -1}, "latest.seconds: "),
        ({"key": ["node"], "keep_hours": 0}, "latest.keep_hours: "),
        ({"key": ["node"], "delete_when": {"op": []}}, "latest.delete_when: op: "),
        ({"key": ["node"], "delete_when": {"op": ["d", 1]}}, "latest.delete_when: op: must be a list of values of one"),
        ({"seconds": 1.0}, "latest.key: required with the other keys"),
        ({"by": ["node"]}, "latest.by: "),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key(latest: dict[str, Any], reason: str) -> None:
    said = [str(each) for each in MODELS.find({**BASE, "latest": latest}, IngestSettings)]
    assert [each for each in said if each.startswith(reason)], said


def test_another_format_and_a_folder_that_is_taken_are_refused() -> None:
    """With what to do."""
    catalog = {"table_format": "iceberg", "catalog": {"uri": "sqlite:////tmp/c.db"}}
    wrong = [
        str(each) for each in MODELS.find({**BASE, "latest": {"key": ["node"]}, **catalog}, IngestSettings)
    ]
    assert 'latest: is kept from the log of a Delta table, not iceberg; use table_format = "delta"' in wrong
    both = {**BASE, "latest": {"key": ["node"]}, "checkpoint": f"{BASE['table']}_latest"}
    (said,) = (str(each) for each in MODELS.find(both, IngestSettings))
    assert "would be the latest table of ingest and the checkpoint of ingest" in said


def test_a_pipeline_inherits_it_has_its_own_or_none() -> None:
    """`key = []` is none."""
    base = {key: value for key, value in BASE.items() if key not in ("topics", "table", "checkpoint")}
    own: list[dict[str, Any]] = [{}, {"latest": {"key": ["id"]}}, {"latest": {"key": []}}]
    pipelines = [
        {"topics": ["a/b"], "table": f"/t{number}", "checkpoint": f"/c{number}", **more}
        for number, more in enumerate(own)
    ]
    job = IngestSettings.model_validate(
        {**base, "latest": {"key": ["node"], "columns": ["body"]}, "pipelines": pipelines}
    )
    found = [each.latest and each.latest.definition for each in job.jobs()]
    assert found == [LatestDefinition(key=("node",), columns=("body",)), LatestDefinition(key=("id",)), None]
