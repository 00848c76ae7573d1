"""The list of event types is what hub and ingest publish."""

from __future__ import annotations

import ast
from pathlib import Path

from fairlead_wire.events.event_types import EVENT_TYPES

ROOT = Path(__file__).resolve().parents[3]
PUBLISHERS = {
    "hub": ROOT / "operator" / "fairlead_hub" / "events" / "cloud_events.py",
    "ingest": ROOT / "ingest" / "fairlead_ingest" / "pipeline" / "events.py",
}


def published(path: Path) -> set[str]:
    """Texts like `node.away` in a publisher's code."""
    texts = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return {
        text
        for text in texts
        if isinstance(text, str) and text.count(".") == 1 and text.replace(".", "").replace("_", "").isalpha()
    }


def test_every_published_type_is_listed_and_no_other() -> None:
    """Remedy: a line in `event_types`, then `make docs`."""
    for publisher, path in PUBLISHERS.items():
        assert {each.name for each in EVENT_TYPES if each.publisher == publisher} == published(path), path.name


def test_every_type_says_when_it_is_published() -> None:
    """In words that no cell of a table breaks."""
    assert len({each.name for each in EVENT_TYPES}) == len(EVENT_TYPES)
    assert all(each.when and each.data and "|" not in each.when + each.data for each in EVENT_TYPES)
