"""The tables of settings in the reference pages are made from the programs' settings, and are those of today."""

from __future__ import annotations

import pytest
from docs.reference import settings_tables


@pytest.mark.slow
@pytest.mark.parametrize("name", settings_tables.PAGES)
def test_a_page_says_what_the_program_takes(name: str) -> None:
    """A key, a default or a limit that changed is changed on the page too."""
    there = (settings_tables.REFERENCE / f"{name}.md").read_text()
    assert there == settings_tables.page(name), "run: .venv/bin/python docs/reference/settings_tables.py"


@pytest.mark.parametrize("name", settings_tables.PAGES)
def test_every_key_says_what_it_means(name: str) -> None:
    """In a sentence, which no cell of a table breaks."""
    for key, default, may_be, meaning in settings_tables.rows(settings_tables.PAGES[name]):
        assert meaning.endswith((".", "?")) and "|" not in f"{default}{may_be}{meaning}", key
