"""Contracts on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io import contracts


@pytest.mark.parametrize("text", [None, "{", '{"columns": {"a": "no such type"}}', "\udcff", "x" * 2_000_000])
def test_a_file_that_cannot_be_used_stops_with_its_path(tmp_path: Path, text: str | None) -> None:
    """By code: waiting repairs no file."""
    path = tmp_path / "schema.json"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(errors.Stop, match=rf"{errors.SCHEMA_BROKEN}: {path}"):
        contracts.read(path)


def test_toml_is_known_by_its_ending(tmp_path: Path) -> None:
    """And JSON by its first letter."""
    (tmp_path / "c.toml").write_text('name = "t"\nversion = 1\ncolumns = { a = "int" }\n')
    assert contracts.read(tmp_path / "c.toml").title == "t version 1"
