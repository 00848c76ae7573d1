"""The how-to's program prints what is so."""

from __future__ import annotations

import pyarrow as pa
from tests.support.pages import ROOT, blocks
from tests.support.tables.latest_rows import SCHEMA, Row, append

from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.latest.definition import LatestDefinition


def test_the_program_of_the_page_counts_devices(tmp_path, monkeypatch, capsys):
    rows = [Row(node="a", number=1), Row(node="b", number=2), Row(node="c", number=3, op="d"), Row(node="a", number=4)]
    schema = pa.schema([*SCHEMA, ("body", pa.string())])
    append(tmp_path / "telemetry", rows, schema, body="{}")
    definition = LatestDefinition(key=("node",), delete_when={"op": ("d",)})
    refresh(tmp_path / "telemetry", tmp_path / "telemetry_latest", definition)
    page = ROOT / "docs" / "howto" / "latest-per-device.md"
    (program,) = (block for block in blocks(page, page.read_text()) if "DeltaTable" in block.text)
    monkeypatch.chdir(tmp_path)
    exec(compile(program.text, str(page), "exec"), {})
    assert capsys.readouterr().out == "2 devices\n"
