"""Options as a Spark user gives them."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.topics.options import SourceOptions, spark_schema
from fairlead_wire.errors import LocalError

BASE = {"url": "http://127.0.0.1:1", "topics": "a/t, b/t"}


def test_options_are_taken_in_any_case_and_typed():
    options = SourceOptions.of({**BASE, "maxrowsperbatch": "10", "FORMAT": "envelope", "startingOffsets": "latest"})
    assert options.topics == ["a/t", "b/t"]
    assert options.max_rows_per_batch == 10
    assert options.start_of("b/t") == "latest"
    assert "sequence" in options.page_schema.names


def test_each_topic_may_start_elsewhere():
    """A name, a time, an explicit place; what is not named starts at its beginning."""
    options = SourceOptions.of({**BASE, "startingOffsets": '{"a/t": {"g": 1, "p": "0a"}, "b/t": 5}'})
    assert options.start_of("a/t") == {"g": 1, "p": "0a"}
    assert (options.start_of("b/t"), options.start_of("c/t")) == (5, "earliest")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"url": ""}, "url"),
        ({"topics": ""}, "topics"),
        ({"topics": "a"}, "topics"),
        ({"topics": "a/b/c"}, "topics"),
        ({"topics": "a/t,a/t"}, "topics"),
        ({"topics": "[1]"}, "topics"),
        ({"format": "avro"}, "format"),
        ({"startingOffsets": "sometime"}, "startingOffsets"),
        ({"startingOffsets": "{"}, "startingOffsets"),
        ({"startingOffsets": "-1"}, "startingOffsets"),
        ({"startingOffsets": '{"a/t": {"p": "0a"}}'}, "startingOffsets"),
        ({"maxRowsPerBatch": "many"}, "maxRowsPerBatch"),
        ({"pageRows": "0"}, "pageRows"),
        ({"onExpired": "ignore"}, "onExpired"),
        ({"tlsCa": "ca.pem"}, "tlsCa"),
    ],
)
def test_a_bad_option_is_refused_by_name(change, name):
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: {name}"):
        SourceOptions.of({**BASE, **change})


def test_a_client_is_made_where_it_is_used():
    assert SourceOptions.of(BASE).client().base_url == BASE["url"]
    tls = {"tlsCa": "/none/ca", "tlsCert": "/none/cert", "tlsKey": "/none/key", "url": "https://h:1"}
    with pytest.raises(LocalError, match="/none/ca"):
        SourceOptions.of({**BASE, **tls}).client()


def test_the_spark_schema_is_the_pages():
    schema = spark_schema(SourceOptions.of(BASE).page_schema)
    assert schema.simpleString() == "struct<payload:binary,_topic:string,_id:string,_published_at:timestamp>"
