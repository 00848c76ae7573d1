"""The page of messaging's calls and codes is what the contract says."""

from __future__ import annotations

from docs.reference import messaging_tables
from tests.support.topics.messaging import EVERY_ROUTE

from fairlead_messaging.api import error_codes


def test_the_page_is_up_to_date() -> None:
    """Remedy: `.venv/bin/python docs/reference/messaging_tables.py`."""
    assert messaging_tables.PAGE.read_text() == messaging_tables.page()


def test_each_call_and_each_code_has_its_place() -> None:
    """A call as a heading, a code as a row."""
    text = messaging_tables.page()
    assert all(f"### `{route.method} {route.path}`\n" in text for route in EVERY_ROUTE)
    assert all(f"| `{code}` |" in text for code in error_codes.MEANINGS)
