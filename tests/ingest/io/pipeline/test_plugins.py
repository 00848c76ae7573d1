"""A user's own functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import query


def test_a_function_is_found_in_a_module_or_a_file(tmp_path: Path) -> None:
    """By the name in the settings."""
    own = tmp_path / "own.py"
    own.write_text("def same(rows):\n    return rows\n")
    assert query.load(f"{own}:same")("rows") == "rows"  # type: ignore[arg-type, comparison-overlap]
    assert query.load("fairlead_ingest.rows.transforms:lineage").__name__ == "lineage"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("no_such_module:f", ""),
        ("fairlead_ingest.rows.transforms:none", ""),
        ("fairlead_ingest.rows.transforms:PASSENGERS", ""),
        ("own.py:f", "def broken(:"),
        ("none.py:f", ""),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, name: str, content: str) -> None:
    """With its reason, before the query starts."""
    if content:
        (tmp_path / "own.py").write_text(content)
    full = str(tmp_path / name) if ".py:" in name else name
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: transforms: "):
        query.load(full)


def test_a_transform_may_not_lose_a_rows_identity(spark: SparkSession, tmp_path: Path) -> None:
    """Nor drop what carries the dead letters."""
    own = tmp_path / "own.py"
    own.write_text("def forgetful(rows):\n    return rows.drop('_id')\n\ndef nothing(rows):\n    return None\n")
    rows = spark.range(1).selectExpr("'t' AS _topic", "'0a' AS _id")
    for function, lost in (("forgetful", "_id"), ("nothing", "_topic, _id")):
        with pytest.raises(errors.Stop, match=f"lost the column {lost}"):
            query.apply(f"{own}:{function}", rows)
