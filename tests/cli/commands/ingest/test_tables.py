"""`fairlead ingest` beyond `run`, as typed."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.support.tables.table_formats import FORMATS, append_rows, format_of

from fairlead_cli.commands.ingest import tables as table_commands
from fairlead_cli.main import build
from fairlead_ingest.io.table import tables as companions
from fairlead_ingest.rows.envelope import TIMESTAMP

REPORTED = [("_published_at", TIMESTAMP), ("_ingested_at", TIMESTAMP)]
SIDES = ((companions.DEAD_LETTERS, companions.DEAD_LETTERS_SCHEMA), (companions.GAPS, companions.GAPS_SCHEMA))
RECEIPT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "node", "_topic", "_id")]
    + [*REPORTED, ("_batch", pa.int64()), ("_date", pa.date32())]
)
SCHEMA = pa.schema([("node", pa.string()), ("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ingest.toml"
    path.write_text(
        'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\ntopics = ["a/t"]\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n'
    )
    return path


def make_tables(tmp_path: Path, sink: str = "delta") -> Path:
    for suffix in ("", companions.DEAD_LETTERS, companions.GAPS):
        format_of(sink, tmp_path).ensure(tmp_path / f"rows{suffix}", SCHEMA)
    return tmp_path / "rows"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return make_tables(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["ingest", *words])


def test_status_works_before_anything_runs(config: Path) -> None:
    text = run("status", "--config", str(config))
    assert text.exit_code == 0
    assert "no table yet" in text.stdout
    assert "a/t: how far behind is unknown: http://127.0.0.1:9 cannot be reached" in text.stdout
    plain = run("status", "--config", str(config), "-o", "json")
    (found,) = json.loads(plain.stdout)["pipelines"]
    assert (found["rows"], found["topics"][0]["state"]) == (0, "unreachable")


@pytest.mark.parametrize("words", [["compact"], ["compact", "--z-order", "node"], ["vacuum", "--dry-run"], ["vacuum"]])
def test_tables_are_looked_after(config: Path, tables: Path, words: list[str]) -> None:
    """The answer alone is on standard output; the bar is not in its way."""
    done = run(*words, "--config", str(config), "-o", "json")
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)
    assert run(*words, "--config", str(config)).exit_code == 0


@pytest.mark.parametrize("words", [["compact"], ["vacuum"]])
def test_a_table_that_fails_keeps_none_of_the_others_back(
    config: Path, tables: Path, tmp_path: Path, words: list[str]
) -> None:
    """It is said, and the program ends with 1 after the others are done."""
    absent = {"topics": ["a/u"], "table": str(tmp_path / "absent"), "checkpoint": str(tmp_path / "absent-checkpoint")}
    own = config.read_text().replace(f'"{tables}"', f'"{tmp_path / "absent-too"}"')
    assert own != config.read_text()
    lists = "".join(
        "[[pipelines]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in each.items())
        for each in (absent, {**absent, "table": str(tables), "checkpoint": str(tmp_path / "another")})
    )
    config.write_text(own + lists)
    done = run(*words, "--config", str(config))
    assert done.exit_code == 1, done.output
    assert done.stderr.count("there is no table here") == 2
    assert ("pipeline-2: 0 files became 0" if words == ["compact"] else f"{tables}: 0 files deleted") in done.stdout


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("words", [["compact"], ["compact", "--z-order", "node"], ["receipt", "m1"]])
def test_a_table_that_lacks_a_file_is_a_sentence(config: Path, tables: Path, words: list[str], is_cut: bool) -> None:
    for name in ("one", "two"):
        writing = companions.of("delta").writing(tables)
        row = {"node": name, "_id": name, "_topic": "a/t", "_date": datetime.date(2026, 11, 23)}
        writing.add(pa.Table.from_pylist([row], schema=SCHEMA))
        companions.of("delta").append(tables, writing.close(), companions.UNNUMBERED)
    for file in tables.rglob("*.parquet"):
        if is_cut:
            file.write_bytes(file.read_bytes()[:100])
        else:
            file.unlink()
    refused = run(*words, "--config", str(config))
    assert refused.exit_code == 1 and isinstance(refused.exception, SystemExit), refused.exception
    assert "fairlead ingest: " in refused.stderr and "Traceback" not in refused.output


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["compact"], 1, "there is no table"),
        (["vacuum"], 1, "there is no table"),
        (["status", "--pipeline", "other"], 2, "no pipeline 'other'"),
        (["backfill", "--from", "yesterday"], 2, "--from"),
        (["backfill", "--until", "-1"], 2, "--until"),
        (["backfill", "--into", "gs://bucket/rows"], 2, "only s3://bucket/path"),
        (["backfill", "--from", "0" * 40], 2, "is the id of a message; write a time"),
        (["backfill", "--from", "lastweek"], 2, "must be milliseconds since 1970, a time such as"),
        (["compact", "--target-mib", "0"], 2, "--target-mib"),
        (["receipt", "m1"], 1, "rows yet (has the job run?)"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(config: Path, words: list[str], code: int, reason: str) -> None:
    refused = run(*words, "--config", str(config))
    assert refused.exit_code == code
    assert reason in refused.stderr
    assert "Traceback" not in refused.output


def test_an_unknown_column_and_a_short_retention_are_refused(config: Path, tables: Path) -> None:
    assert run("compact", "--config", str(config), "--z-order", "nodes").exit_code == 2
    short = run("vacuum", "--config", str(config), "--retention-hours", "0")
    assert (short.exit_code, "--retention-hours must be at least 1 hour" in short.stderr) == (1, True)


@pytest.mark.parametrize(("batch", "by"), [(3, "batch 3"), (-1, "by a repair or backfill")])
def test_a_receipt_says_when_a_row_was_ingested_and_by_what(config: Path, tmp_path: Path, batch: int, by: str) -> None:
    format_of("delta", tmp_path).ensure(tmp_path / "rows", RECEIPT_SCHEMA)
    then = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
    row = {"id": "m1", "node": "n", "_topic": "a/t", "_id": "0a", "_date": then.date(), "_batch": batch}
    append_rows(
        companions.of("delta"),
        tmp_path / "rows",
        [{**row, "_published_at": then, "_ingested_at": then}],
        RECEIPT_SCHEMA,
    )
    said = run("receipt", "m1", "--config", str(config)).stdout
    assert said == f"m1: in {tmp_path}/rows, ingested at 2026-11-20T12:00:00Z ({by})\n"


@pytest.mark.parametrize(
    ("pace", "said"),
    [
        ((None, None, None), "with 5 rows"),
        ((None, 1.0, 2.0), "with 5 rows; fresh within 1.0 s (half), 2.0 s (95 %)"),
        ((7.5, 1.0, "more than 3600"), "with 5 rows; 7.5 rows/s; fresh within 1.0 s (half), more than 3600 s (95 %)"),
    ],
)
def test_a_status_shows_only_what_is_known(pace: tuple[object, ...], said: str) -> None:
    counts = {"dead_letters_open": 0, "dead_letters_repaired": 0, "gaps_rows": 0, "topics": []}
    batch = {"last_batch": 1, "last_commit_seconds": 3.0, "last_rows": 5, "files": 1, "bytes": 9, "version": 2}
    known = dict(zip(("rows_per_second", "freshness_p50_seconds", "freshness_p95_seconds"), pace, strict=True))
    facts = {"name": "i", "table": "t", "state": "ok", "rows": 5, **counts, **batch, **known}
    assert table_commands.status_text(facts).splitlines()[1] == f"  batch 1 3.0 s ago, {said}"


def test_bad_settings_are_reported_with_file_and_key(config: Path) -> None:
    config.write_text("tabel = 1\n")
    refused = run("status", "--config", str(config))
    assert refused.exit_code == 2
    assert f"fairlead ingest: {config}: " in refused.stderr


@pytest.mark.parametrize("sink", FORMATS)
@pytest.mark.parametrize(
    ("words", "said"), [(["status"], "0 rows"), (["vacuum"], "0 files deleted"), (["receipt", "m1"], "m1: not in")]
)
def test_tables_of_either_kind_are_answered_for(
    config: Path, tmp_path: Path, sink: str, words: list[str], said: str
) -> None:
    make_tables(tmp_path, sink)
    more = f'[catalog]\nuri = "sqlite:///{tmp_path}/catalog.db"\n' if sink == "iceberg" else ""
    config.write_text(f'table_format = "{sink}"\n' + config.read_text() + more)
    assert said in run(*words, "--config", str(config)).stdout


def test_a_stretch_that_ends_before_it_begins_is_refused(config: Path) -> None:
    """Before Spark is started; it would read nothing and say so only then."""
    ended = run("backfill", "--config", str(config), "--from", "2026-11-22", "--until", "2026-11-21")
    assert (ended.exit_code, "must be a later time than --from" in ended.output) == (2, True)


def test_a_schema_that_cannot_be_used_is_refused_before_spark_starts(config: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"columns": {"a": "dubble"}}')
    config.write_text(f'schema = "{tmp_path}/schema.json"\n' + config.read_text())
    ended = run("backfill", "--config", str(config))
    assert (ended.exit_code, "schema.json: a: 'dubble' is not a type" in ended.output) == (2, True)


@pytest.mark.slow
def test_a_report_is_written_with_and_without_the_service(config: Path, tmp_path: Path) -> None:
    """Rows of the days that were asked for; the page says how many there are in all."""
    form, table, today = companions.of("delta"), tmp_path / "rows", datetime.datetime.now(datetime.UTC)
    schema = pa.schema([*REPORTED, *SCHEMA])
    for path, columns in ((table, schema), *((companions.beside(table, each), of) for each, of in SIDES)):
        form.ensure(path, columns)
    for age in (0, 40):
        then = today - datetime.timedelta(days=age)
        row = {"_topic": "a/t", "_published_at": then, "_ingested_at": then, "_date": then.date(), "node": "edge-1"}
        writing = form.writing(table)
        writing.add(pa.Table.from_pylist([row], schema=schema))
        form.append(table, writing.close(), companions.UNNUMBERED)
    page = tmp_path / "report.html"
    done = run("report", "--config", str(config), "--out", str(page))
    assert done.exit_code == 0 and "2 rows in 1 table" in done.stdout, done.output
    shown = page.read_text()
    assert "2 rows in" in shown and "1 rows of the last 7 days" in shown and "unreachable" in shown
    assert run("report", "--config", str(config), "--out", str(page), "--days", "41", "--offline").exit_code == 0
    assert "2 rows of the last 41 days" in page.read_text() and "Behind the topics now" not in page.read_text()
    assert run("report", "--config", str(config), "--out", str(page), "--days", "36500", "--offline").exit_code == 0
    assert run("report", "--config", str(config), "--out", str(page), "--days", "0").exit_code == 2
