"""`fairlead ingest repair` as typed; what it does to tables is in test_ingest_letters.py and tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.tables.letters_world import World, name, payload

from fairlead_cli.main import build
from fairlead_ingest.io.table import tables


def test_a_dry_run_promises_nothing_that_the_table_refuses(config: Path) -> None:
    """A column whose type changed in the schema file, before Spark starts."""
    tables.of("delta").ensure(config.with_name("rows"), pa.schema([pa.field("member", pa.bool_())]))
    schema = config.with_name("schema.json")
    schema.write_text('{"columns": {"member": "string"}}')
    config.write_text(config.read_text() + f'schema = "{schema}"\n')
    for how in ("--dry-run", "--yes"):
        refused = CliRunner().invoke(build(), ["ingest", "repair", "--config", str(config), how])
        assert refused.exit_code == 1, refused.output
        assert "column member is boolean in the table and string in the job" in refused.stderr
        assert "starting Spark" not in refused.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    world = World(tables.of("delta"), tmp_path / "rows")
    world.publish({0: payload(0), 1: b"broken"})
    world.run_job(1)
    path = tmp_path / "ingest.toml"
    path.write_text(
        'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\ntopics = ["default/t"]\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n'
    )
    return path


def test_letters_that_still_do_not_fit_are_named_with_the_reason(config: Path) -> None:
    """A function that leaves it alone is another matter: then nothing is left to do."""
    words = ["ingest", "repair", "--config", str(config), "--yes"]
    done = CliRunner().invoke(build(), words)
    assert done.exit_code == 1
    assert "1 dead letter, 0 repaired" in done.stdout and "1 still do not fit: not_json" in done.stdout
    assert name(1) in done.stdout
    mending = config.with_name("mending.py")
    mending.write_text("def alone(letter):\n    return None\n")
    failing = config.with_name("failing.py")
    failing.write_text("def fails(letter):\n    raise ValueError('no')\n")
    done = CliRunner().invoke(build(), [*words, "--with", f"{failing}:fails"])
    assert "1 were not checked: the function or a transform failed" in done.stdout, done.output
    done = CliRunner().invoke(build(), [*words, "--with", f"{mending}:alone"])
    assert (done.exit_code, "1 were left unchanged by the function" in done.stdout) == (0, True), done.output


def test_where_spark_is_needed_and_cannot_start_nothing_is_done(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema file that cannot be used, or no Java, is said at once."""
    words = ["ingest", "repair", "--config", str(config), "--yes"]
    schema = config.with_name("schema.json")
    schema.write_text('{"columns": {"a": "nonsense"}}')
    config.write_text(config.read_text() + f'schema = "{schema}"\n')
    refused = CliRunner().invoke(build(), words)
    assert (refused.exit_code, "FAIRLEAD_SCHEMA_BROKEN" in refused.stderr) == (2, True), refused.output
    monkeypatch.setenv("JAVA_HOME", str(config.parent))
    refused = CliRunner().invoke(build(), words)
    assert (refused.exit_code, "Java 17" in refused.stderr) == (2, True), refused.output
