"""Types as Spark writes them, read without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import types

from fairlead_ingest.rows import ddl

COLUMNS = [
    "temperature DOUBLE, tags ARRAY<STRING>",
    "a TINYINT, b byte, c SMALLINT, d short, e INT, f integer, g BIGINT, h long, i float, j real, k binary",
    "a decimal, b DECIMAL(10), c dec(38, 18), d numeric(5,5), e boolean, f date, g timestamp, h timestamp_ntz",
    "at struct<lat:double,lon: double,`odd ``name`:string>, m map<string, array<struct<x:int>>>",
    "a: int, `b c`: string NOT NULL COMMENT 'it''s', c string comment \"x\"",
    "1st INT",
]


@pytest.mark.parametrize("text", COLUMNS)
def test_columns_are_what_spark_takes_them_for(spark, text):
    """But for what we do not enforce: comments, and that a column is never null."""
    theirs = types.StructType.fromDDL(text)
    assert isinstance(theirs, types.StructType)
    assert ddl.columns_of(text).simpleString() == theirs.simpleString()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends where a type"),
        ("dubble", "not a type"),
        ("array<int", "ends where '>'"),
        ("array<int>>", "unexpected"),
        ("decimal(50,2)", "1 to 38"),
        ("decimal(5,6)", "1 to 38"),
        ("decimal(x)", "not a number"),
        ("struct<a int", "ends where"),
        ("map<string>", "expected ','"),
        ("int; drop", "cannot be part"),
        ("array<" * 60 + "int", "nested deeper"),
    ],
)
def test_a_mistake_is_said(text, reason):
    with pytest.raises(ValueError, match=reason):
        ddl.type_of(text)
