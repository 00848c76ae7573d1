"""`fairlead ingest latest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.tables.latest_rows import Row, append

from fairlead_cli.commands.ingest import latest
from fairlead_cli.main import build


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "ingest.toml"
    file.write_text(
        'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\ntopics = ["plant/telemetry"]\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n[latest]\nkey = ["node"]\n'
    )
    return file


def test_it_brings_the_table_up_and_says_what_it_did(config: Path, tmp_path: Path) -> None:
    run = ["ingest", "latest", "--config", str(config)]
    assert "no rows yet" in CliRunner().invoke(build(), run).stdout
    append(tmp_path / "rows", [Row(node="a", number=1), Row(node="b", number=2)])
    said = CliRunner().invoke(build(), run).stdout
    assert f"2 keys in {tmp_path}/rows_latest, 2 changed by 2 rows; built from all rows" in said
    (facts,) = json.loads(CliRunner().invoke(build(), [*run, "-o", "json"]).stdout)["latest"]
    assert (facts["keys"], facts["rows_read"], facts["built_because"]) == (2, 0, "")
    assert "requested" in CliRunner().invoke(build(), [*run, "--rebuild"]).stdout
    vacuumed = CliRunner().invoke(build(), ["ingest", "vacuum", "--config", str(config)])
    assert f"{tmp_path}/rows_latest: 0 files" in vacuumed.stdout


def test_without_a_key_it_says_what_to_write(config: Path) -> None:
    config.write_text(config.read_text().partition("[latest]")[0])
    ended = CliRunner().invoke(build(), ["ingest", "latest", "--config", str(config)])
    assert ended.exit_code == 2
    assert "[latest] key" in ended.stderr


def test_a_line_of_status() -> None:
    assert latest.line({"table": "t", "state": "no table yet"}) == "  latest: t (no table yet)"
    facts = {"keys": 5, "deleted_keys": 2, "files": 1, "bytes": 9, "versions_behind": 3, "last_refresh_seconds": 4.0}
    assert latest.line(facts) == (
        "  latest: 5 keys and 2 deleted, 1 file, 9 bytes, 3 versions behind, last changed 4.0 s ago"
    )
    assert "1 version behind" in latest.line({**facts, "versions_behind": 1})
    assert "up to date" in latest.line({**facts, "versions_behind": 0})
