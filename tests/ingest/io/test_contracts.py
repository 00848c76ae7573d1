"""Reading contracts from files, comparing them with a table, and reading messages to check against them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.tables.table_formats import FORMATS, format_of

from fairlead_ingest import errors
from fairlead_ingest.contracts.comparison import ContractChange
from fairlead_ingest.io import contracts
from fairlead_ingest.rows import contract_file
from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient


@pytest.mark.parametrize("text", [None, "{", '{"columns": {"a": "no such type"}}', "\udcff", "x" * 2_000_000])
def test_a_file_that_cannot_be_used_stops_with_its_path(tmp_path, text):
    path = tmp_path / "schema.json"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(errors.Stop, match=rf"{errors.SCHEMA_BROKEN}: {path}"):
        contracts.read(path)


def test_toml_is_known_by_its_ending(tmp_path):
    (tmp_path / "c.toml").write_text('name = "t"\nversion = 1\ncolumns = { a = "int" }\n')
    assert contracts.read(tmp_path / "c.toml").title == "t version 1"


def found(table_format: str, table: Path, text: str) -> list[tuple[str, str]] | None:
    contract = contract_file.parse(text, "s")
    changes = contracts.changes(table_format, format_of(table_format, table.parent), table, contract)
    return None if changes is None else [(each.kind, each.column) for each in changes]


@pytest.mark.parametrize("table_format", FORMATS)
def test_columns_are_taken_refused_or_no_longer_filled(tmp_path, table_format):
    table = tmp_path / "rows"
    assert found(table_format, table, "a int") is None
    own = [pa.field("_topic", pa.string()), pa.field("_date", pa.date32())]
    columns = [*contracts.columns(contract_file.parse("a int, b array<double>, t timestamp", "s")), *own]
    format_of(table_format, tmp_path).ensure(table, pa.schema(columns))
    assert found(table_format, table, "a int, b array<double>, t timestamp") == []
    clashes = [("refused", "a"), ("refused", "b"), ("refused", "T")]
    assert found(table_format, table, "a bigint, b array<float>, T timestamp, n string") == [*clashes, ("added", "n")]
    assert found(table_format, table, "a int, t timestamp") == [("unfilled", "b")]
    assert found(table_format, table, '{"mode": "evolve", "columns": {"a": "int"}}') == [("added", "_rescued")]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_type_that_would_change_is_said_in_words_of_a_contract_with_the_remedy(tmp_path, table_format):
    table, known = tmp_path / "rows", format_of(table_format, tmp_path)
    own = [pa.field("_topic", pa.string()), pa.field("_date", pa.date32())]
    known.ensure(table, pa.schema([pa.field("m", pa.bool_()), pa.field("l", pa.list_(pa.int64())), *own]))
    wanted = pa.schema([pa.field("m", pa.string())])
    for refuse in (known.ensure, lambda *given: contracts.check_takes(table_format, known, *given)):
        with pytest.raises(errors.Stop, match=r"column m is boolean in the table and string in the job; .*a new table"):
            refuse(table, wanted)
    contracts.check_takes(table_format, known, table, pa.schema([pa.field("new", pa.string()), *own]))
    contract = contract_file.parse("m string, l array<double>", "s")
    found = contracts.changes(table_format, known, table, contract)
    assert found is not None
    whats = [each.what for each in found]
    assert "is boolean in the table and string in the contract" in whats[0]
    assert "is array<bigint> in the table and array<double> in the contract" in whats[1]


def test_what_is_not_filled_breaks_nothing():
    assert not ContractChange(kind=contracts.UNFILLED, what="").is_breaking


COUNT = 5_000


def read(client: BulkClient, topic: str, last: int | None = None, since_ms: int | None = None) -> list[int]:
    found = contracts.stretch(client, topic, last=last, since_ms=since_ms)
    numbers = [int(each) for page in contracts.pages(client, found) for each in page["payload"].to_pylist()]
    assert len(numbers) == found.rows
    return numbers


def test_the_newest_of_a_long_topic_are_found(messaging, topic):
    """Exactly as many, wherever the topic is cut, in order; and no reader's position is left."""
    with BulkClient(messaging.url) as client:
        assert read(client, topic, 5) == []
    messaging.publish(topic, [b"%d" % number for number in range(COUNT)])
    with BulkClient(messaging.url) as client:
        for last in (1, 10, 999, 1_001, 4_321, COUNT, COUNT + 5):
            assert read(client, topic, last) == list(range(max(0, COUNT - last), COUNT)), last
        assert read(client, topic) == list(range(COUNT))
        assert read(client, topic, since_ms=0, last=3) == [COUNT - 3, COUNT - 2, COUNT - 1]
        assert read(client, topic, since_ms=4_000_000_000_000) == []
    assert messaging.readers(topic) == []


def test_what_is_not_there_is_said(messaging):
    with BulkClient(messaging.url) as client, pytest.raises(TopicMissing):
        contracts.stretch(client, "default/never")
    with BulkClient("http://127.0.0.1:9") as client, pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        contracts.stretch(client, "default/t")
