"""The drawing in docs/explanation/delivery.md is the table; FAIRLEAD_REWRITE=1 draws it anew."""

import os
import re
from pathlib import Path

from fairlead_hub.delivery.key_state import NAMES, TRANSITIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "delivery.md"
DRAWING = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def drawing() -> str:
    """The table as a Mermaid state diagram: one arrow for each pair of states, with the events that lead along it."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(NAMES.values()))}"]
    for before, row in TRANSITIONS.items():
        for after in dict.fromkeys(row.values()):
            events = ", ".join(event for event, to in row.items() if to is after)
            lines.append(f"    {NAMES[before]} --> {NAMES[after]}: {events}")
    return "\n".join([*lines, "```", ""])


def test_the_page_draws_the_table():
    """Every transition, and none that is impossible."""
    text = PAGE.read_text()
    if os.environ.get("FAIRLEAD_REWRITE"):
        text = DRAWING.sub(drawing(), text)
        PAGE.write_text(text)
    assert DRAWING.findall(text) == [drawing()], "FAIRLEAD_REWRITE=1 .venv/bin/pytest " + __file__


def test_the_page_names_every_state():
    """With a row of its own."""
    rows = {line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines() if line.startswith("| ")}
    assert set(NAMES.values()) - {"IN_SYNC"} <= rows
