"""From one snapshot to the next: what open pages have to be sent.

Rows that differ are sent in turns, at most ``LINES_MAX`` at once: when 5,000 nodes return together, a page sees all of
them within ten seconds, and 100 pages cost the hub no more than a bounded number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead_hub.console.node_line import NodeLine
from fairlead_hub.console.snapshot import ConsoleSnapshot

LINES_MAX = 500
NODES = "nodes"


class ChangedLines(NamedTuple):
    """``lines`` replace those of the same names."""

    at: int
    lines: list[NodeLine]
    removed: list[str]


class LiveFrames:
    """Remembers what pages were sent."""

    def __init__(self) -> None:
        self._lines: dict[str, NodeLine] | None = None
        self._sections: dict[str, str] = {}
        self._turn = ""

    def nodes(self, snapshot: ConsoleSnapshot) -> ChangedLines | None:
        """None: no row changed.  The first snapshot is what the first page shows: nothing of it has to be sent."""
        if self._lines is None:
            self._lines = dict(snapshot.lines)
            return None
        sent = self._lines
        removed = [name for name in sent if name not in snapshot.lines]
        for name in removed:
            del sent[name]
        differing = [line for name, line in snapshot.lines.items() if sent.get(name) != line]
        if len(differing) > LINES_MAX:
            later = [line for line in differing if line.name > self._turn]
            differing = [*later, *(line for line in differing if line.name <= self._turn)][:LINES_MAX]
            self._turn = differing[-1].name
        for line in differing:
            sent[line.name] = line
        return ChangedLines(snapshot.at, differing, removed) if differing or removed else None

    def sections(self, rendered: Mapping[str, str]) -> list[tuple[str, str]]:
        """Those whose HTML is not what was sent last."""
        changed = [(name, html) for name, html in rendered.items() if self._sections.get(name) != html]
        self._sections.update(changed)
        return changed
