"""The updates for open pages between two snapshots.

Changed rows are sent in turns of at most ``LINES_MAX``: if 5,000 nodes return together, a page shows all of them within
ten seconds, and 100 pages cost the hub a bounded number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead_hub.console.node_line import NodeLine
from fairlead_hub.console.snapshot import ConsoleSnapshot

LINES_MAX = 500
NODES = "nodes"


class ChangedLines(NamedTuple):
    """Each of ``lines`` replaces the line with the same name."""

    at: int
    lines: list[NodeLine]
    removed: list[str]


class LiveFrames:
    """Remembers what was sent to the pages."""

    def __init__(self) -> None:
        self._lines: dict[str, NodeLine] | None = None
        self._sections: dict[str, str] = {}
        self._turn = ""

    def nodes(self, snapshot: ConsoleSnapshot) -> ChangedLines | None:
        """Changed rows, or None.  The first snapshot yields none: it is what the first page shows."""
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
        """Sections whose HTML differs from what was sent last."""
        changed = [(name, html) for name, html in rendered.items() if self._sections.get(name) != html]
        self._sections.update(changed)
        return changed
