"""Checking the definition of a latest table against the rows' columns, and its settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.test_settings import BASE
from tests.support.tables.latest_rows import SCHEMA

from fairlead_ingest import errors
from fairlead_ingest.latest.definition import BUCKET, DELETED, LINEAGE, LatestDefinition
from fairlead_ingest.settings import IngestSettings
from fairlead_wire.validation.model import MODELS

MORE = pa.schema([*SCHEMA, ("weight", pa.float64()), ("tags", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (LatestDefinition(key=("nod",)), r"\[latest\] key: the rows have no column 'nod'; there are node, source"),
        (LatestDefinition(key=("weight",)), "key: column 'weight' is double; equal measurements"),
        (LatestDefinition(key=("tags",)), "key: column 'tags' is list.*single value"),
        (LatestDefinition(key=("node",), order_by=("tags",)), "order_by: column 'tags'"),
        (LatestDefinition(key=("node",), columns=("none",)), "columns: the rows have no column 'none'"),
        (LatestDefinition(key=("node",), delete_when={"gone": ("x",)}), "delete_when: the rows have no column 'gone'"),
        (LatestDefinition(key=("node",), delete_when={"value": ("x",)}), "delete_when: 'value' is int64 in the rows"),
    ],
)
def test_what_the_rows_cannot_give_is_refused_by_name(definition, reason):
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*{reason}"):
        definition.check(MORE)


def test_what_the_rows_can_give_is_taken():
    """Properties are looked into without a column of their own; any single value can be an order."""
    definition = LatestDefinition(
        key=("node", "value"), order_by=("weight", "enqueued_at"), delete_when={"properties.op": ("d",), "op": ("d",)}
    )
    definition.check(MORE)
    assert definition.order == ("weight", "enqueued_at", "_id", "_topic", "_ingested_at", "_batch")
    assert set(definition.read_columns) == {
        *definition.key, *definition.order, "_published_at", "properties", "op",
    }  # fmt: skip


def test_key_order_and_lineage_are_always_kept():
    kept = LatestDefinition(key=("node",), order_by=("weight",), columns=("value",)).kept(MORE)
    lineage = [name for name in SCHEMA.names if name in LINEAGE]
    assert kept.names == ["node", "value", *lineage, "weight", DELETED, BUCKET]
    assert LatestDefinition(key=("node",)).kept(MORE).names == [*MORE.names, DELETED, BUCKET]


def test_rows_with_a_column_of_ours_or_without_lineage_are_no_rows():
    with pytest.raises(errors.Stop, match="already have a column '_deleted'"):
        LatestDefinition(key=("node",)).check(pa.schema([*MORE, (DELETED, pa.bool_())]))
    with pytest.raises(errors.Stop, match="the rows lack _id"):
        LatestDefinition(key=("node",)).check(pa.schema([field for field in MORE if field.name != "_id"]))


def test_another_definition_has_another_fingerprint():
    """The order of columns that are only kept says nothing."""
    one = LatestDefinition(key=("a", "b"), columns=("x", "y"))
    assert one.fingerprint == LatestDefinition(key=("a", "b"), columns=("y", "x")).fingerprint
    assert one.fingerprint != LatestDefinition(key=("b", "a"), columns=("x", "y")).fingerprint
    assert (
        one.fingerprint != LatestDefinition(key=("a", "b"), columns=("x", "y"), delete_when={"o": ("d",)}).fingerprint
    )


@pytest.mark.parametrize(
    ("latest", "reason"),
    [
        ({"key": "node"}, "latest.key: "),
        ({"key": [""]}, "latest.key: "),
        ({"key": ["a", "a"]}, "latest.key: a name is repeated"),
        ({"key": ["_bucket"]}, "latest.key: _bucket is reserved"),
        ({"key": ["x" * 256]}, "latest.key: names have 1 to 255"),
        ({"key": ["node"], "seconds": -1}, "latest.seconds: "),
        ({"key": ["node"], "keep_hours": 0}, "latest.keep_hours: "),
        ({"key": ["node"], "delete_when": {"op": []}}, "latest.delete_when: op: "),
        ({"key": ["node"], "delete_when": {"op": ["d", 1]}}, "latest.delete_when: op: must be a list of values of one"),
        ({"seconds": 1.0}, "latest.key: required with the other keys"),
        ({"by": ["node"]}, "latest.by: "),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key(latest, reason):
    said = [str(each) for each in MODELS.find({**BASE, "latest": latest}, IngestSettings)]
    assert [each for each in said if each.startswith(reason)], said


def test_another_format_and_a_folder_that_is_taken_are_refused():
    catalog = {"table_format": "iceberg", "catalog": {"uri": "sqlite:////tmp/c.db"}}
    wrong = [str(each) for each in MODELS.find({**BASE, "latest": {"key": ["node"]}, **catalog}, IngestSettings)]
    assert 'latest: needs the log of a Delta table, not iceberg; use table_format = "delta"' in wrong
    both = {**BASE, "latest": {"key": ["node"]}, "checkpoint": f"{BASE['table']}_latest"}
    (said,) = (str(each) for each in MODELS.find(both, IngestSettings))
    assert "would be the latest table of ingest and the checkpoint of ingest" in said


def test_a_pipeline_inherits_it_has_its_own_or_none():
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
