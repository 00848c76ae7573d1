"""The state of the latest messages, as far as this hub saw it; the rest is known in messaging and at the node."""

from __future__ import annotations

from typing import Literal

from fairlead_wire import message

KEPT_MAX = 20_000
State = Literal["accepted", "refused"] | message.InputState
FINAL: frozenset[State] = frozenset(("consumed", "expired", "evicted", "dead_lettered", "refused"))
"""Nothing more becomes of it."""

MAY_BE_THERE = "no answer of the node came in its time; it may have taken it before"
"""With ``expired``: the node knows better."""


class InputOutcomes:
    """The latest ``KEPT_MAX``."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], tuple[State, str]] = {}

    def note(self, node: str, id: str, state: State, reason: str = "") -> None:
        """Since now this is so."""
        self._states.pop((node, id), None)
        self._states[node, id] = (state, reason)
        while len(self._states) > KEPT_MAX:
            del self._states[next(iter(self._states))]

    def begin_again(self, node: str, id: str) -> None:
        """It is sent once more: what ended it before counts no longer."""
        found = self._states.get((node, id))
        if found is not None and found[0] in FINAL:
            del self._states[node, id]

    def of(self, node: str, id: str) -> tuple[State, str] | None:
        """The state and its reason; None: not known here (any more)."""
        return self._states.get((node, id))
