"""The page of the charts' values."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.reference import chart_tables


def test_the_page_is_what_the_charts_say() -> None:
    """Remedy: `.venv/bin/python docs/reference/chart_tables.py`."""
    assert chart_tables.PAGE.read_text() == chart_tables.page(), "run: .venv/bin/python docs/reference/chart_tables.py"


def test_a_sentence_belongs_to_the_key_below_it() -> None:
    """Over several lines; a comment further up belongs to none."""
    said = chart_tables.sentences("# File.\n\na:\n  # -- One\n  # two.\n  b: 1\n  c: 2\n# -- Three.\nd: {}\n")
    assert said == {"a.b": "One two.", "d": "Three."}


def test_a_value_without_a_sentence_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So every value is documented."""
    folder = tmp_path / "fairlead"
    folder.mkdir()
    (folder / "values.yaml").write_text("a: 1\n")
    (folder / "values.schema.json").write_text('{"properties": {"a": {"type": "integer"}}}')
    monkeypatch.setattr(chart_tables, "CHARTS", tmp_path)
    with pytest.raises(chart_tables.Undocumented, match=r"values\.yaml: a needs"):
        chart_tables.table("fairlead")
