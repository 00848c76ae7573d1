"""Which line-to-line steps in the project's code an input executes; an input with a new step is kept.

A step counts by how often it was taken, in powers of two, so that one more iteration of a loop is rarely new.
C code of decoders is not traced; its results show in the lines that run afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.fuzz.target import ROOT

ROOMS = tuple(str(ROOT / room) + "/" for room in ("wire", "operator", "edge_agent", "messaging", "ingest", "cli"))
Step = tuple[int, int, int]


class Coverage:
    """``seen`` grows; ``of`` runs once under a trace, several times slower than without."""

    def __init__(self) -> None:
        self.seen: set[tuple[Step, int]] = set()
        self._counts: dict[Step, int] = {}
        self._ours: dict[Any, bool] = {}

    def of(self, run: Callable[[], object]) -> bool:
        """Whether it took a new step, or a step more often than any input before."""
        self._counts = {}
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            run()
        finally:
            sys.settrace(before)
        found = {(step, count.bit_length()) for step, count in self._counts.items()}
        new = not found <= self.seen
        self.seen |= found
        return new

    def reaches_lines(self, run: Callable[[], object]) -> bool:
        """Whether it took a step that no input took before."""
        before = {step for step, _ in self.seen}
        self.of(run)
        return not {step for step, _ in self.seen} <= before

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(ROOMS)
        if not ours:
            return None
        name, last, counts = hash(code.co_qualname + code.co_filename), 0, self._counts

        def line(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal last
            step = (name, last, frame.f_lineno)
            counts[step] = counts.get(step, 0) + 1
            last = frame.f_lineno
            return line

        return line
