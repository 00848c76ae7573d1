"""Building a query as far as it needs no Spark session: columns, a user's transforms, the order of topics."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import query
from fairlead_ingest.io.pipeline.query import RoundRobin
from fairlead_ingest.io.spark import connect
from fairlead_ingest.settings import Pipeline


def test_the_tables_columns_are_the_querys_with_the_batch_beside_the_day():
    names = ["id", "_topic", "_error", "_payload", "_date"]
    found = query.table_schema(StructType([StructField(name, StringType(), nullable=False) for name in names]))
    assert found.names == ["id", "_topic", "_batch", "_date"]
    assert all(field.nullable for field in found)
    assert str(query.table_schema(StructType([StructField("n", LongType())])).field("_batch").type) == "int64"


def test_a_pipeline_without_a_schema_never_grows_its_table(tmp_path):
    assert not query.evolves(Pipeline(topics=["a/t"], table=str(tmp_path / "t"), checkpoint=str(tmp_path / "c")))


def test_a_function_is_found_in_a_module_or_a_file(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def same(rows):\n    return rows\n")
    assert query.load(f"{own}:same")("rows") == "rows"  # type: ignore[arg-type, comparison-overlap]
    assert query.load("fairlead_ingest.rows.transforms:lineage").__name__ == "lineage"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("no_such_module:f", "", "No module named"),
        ("fairlead_ingest.rows.transforms:line", "", "transforms has no function line; it has lineage, …$"),
        ("fairlead_ingest.rows.transforms:PASSENGERS", "", "is not a function"),
        ("own.py:f", "def broken(:", "invalid syntax"),
        ("own.py:f", "x = 1\nraise AttributeError('mine')", r"raised AttributeError: mine \(own.py line 2\)"),
        ("own.py:f", "from json import loads", "own.py has no function f; it defines no function$"),
        ("own.py:f", "def number(): ...\ndef text(): ...", "own.py has no function f; it has number, text$"),
        ("none.py:f", "", "none.py:f: there is no file .*none.py$"),
        ("f", "", "f must be module:function or path.py:function"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, name, content, said):
    if content:
        (tmp_path / "own.py").write_text(content)
    full = str(tmp_path / name) if ".py:" in name else name
    with pytest.raises(errors.Stop, match=f"^{errors.BAD_OPTION}: transforms: .*{said}"):
        query.load(full)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("raise ValueError('my transform broke')", errors.Stop, r"ValueError: my transform broke \(own.py line 2\)$"),
        ("return json.loads('')", errors.Stop, r"JSONDecodeError: .* \(own.py line 2\)$"),
        (
            "raise ConnectionRefusedError('my own service')",
            errors.Fault,
            r"ConnectionRefusedError: my own service \(own.py line 2\)$",
        ),
        ("return 'x'", errors.Stop, "returned str, not a DataFrame$"),
        ("return None", errors.Stop, "returned None, not a DataFrame$"),
    ],
)
def test_a_transform_that_fails_stops_its_own_pipeline(tmp_path, body, kind, said):
    own = tmp_path / "own.py"
    own.write_text(f"def boom(rows):\n    {body}\nimport json\n")
    with pytest.raises(kind, match=f"transforms: {own}:boom (raised )?{said}"):
        query.apply(f"{own}:boom", None)  # type: ignore[arg-type]


def test_spark_that_is_gone_is_not_the_transforms_fault(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("from fairlead_ingest.io.spark.connect import SparkAway\ndef f(rows): raise SparkAway('gone')\n")
    with pytest.raises(connect.SparkAway):
        query.apply(f"{own}:f", None)  # type: ignore[arg-type]


def test_a_transform_may_not_lose_a_rows_identity(spark, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "def forgetful(rows):\n    return rows.drop('_id')\n\ndef wrong(rows):\n    return rows.select('no')\n"
    )
    rows = spark.range(1).selectExpr("'t' AS _topic", "'0a' AS _id")
    for function, said in (
        ("forgetful", "removed the required columns: _id$"),
        ("wrong", r"raised Analysis.*line 5\)$"),
    ):
        with pytest.raises(errors.Stop, match=said):
            query.apply(f"{own}:{function}", rows)


def test_all_come_once_where_there_is_time():
    names = RoundRobin(["a", "b", "c"])
    assert list(names.take(60.0)) == ["a", "b", "c"]
    assert list(names.take(-1.0)) == ["a"]
    assert list(names.take(60.0)) == ["b", "c", "a"]
    assert list(RoundRobin([]).take(60.0)) == []
