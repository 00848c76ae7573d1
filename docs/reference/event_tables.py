"""The table of events in its page, from the list of types that hub and ingest publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairlead_wire.event import EVENT_TYPES

PAGE = Path(__file__).resolve().parent / "events.md"
BEGIN = "<!-- events: made by event_tables.py from fairlead_wire.event -->\n"
END = "<!-- events: end -->\n"


def wanted() -> Iterator[tuple[Path, str]]:
    """The page with its table as it should be."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "events.md: no place for the table"
    lines = ["| `type` (after `dev.fairlead.`) | by | when | `data` |", "| --- | --- | --- | --- |"]
    lines += (f"| `{each.name}` | {each.publisher} | {each.when} | {each.data} |" for each in EVENT_TYPES)
    table = "\n".join(lines) + "\n"
    yield PAGE, f"{before}{BEGIN}\n{table}{END}{after}"
