"""Counts the outcomes of the letters of a repair, and names a few that are still letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

EXAMPLES_MAX: Final = 10
ERROR_CHARS_MAX: Final = 300
NOT_LET_THROUGH: Final = "left_out"
"""Of a letter that a transform made no row of, or that is no row by what it is."""
FAILED: Final = "failed"
"""Of a letter whose repair function, or whose transform, raised an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A letter that stays one, and why; ``code``: a dead letter's, or one of the two above."""

    topic: str
    id: str
    code: str
    fields: tuple[str, ...] = ()
    error: str


@dataclass(slots=True)
class Tally:
    """Of one pipeline."""

    letters: int = 0
    """Open letters of the selection."""
    repaired: int = 0
    """Their rows are in the table now (on a dry run: would be)."""
    there: int = 0
    """The table had their rows already; they are marked now."""
    kept: int = 0
    """The repair function said to leave them as they are."""
    unsettled: int = 0
    """Their batch is not in the table yet."""
    still: Counter[str] = field(default_factory=Counter)
    """By code: those that do not fit as they are now."""
    examples: list[Still] = field(default_factory=list)
    unknown: int = 0
    """Lines of the edited file that name no dead letter of this table."""

    def stays(self, letter: Still) -> None:
        """One more that is still a letter."""
        self.still[letter.code] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(letter)

    @property
    def is_done(self) -> bool:
        """All that was asked for is in the table."""
        return not (self.unsettled or self.unknown or sum(self.still.values()))

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "letters": self.letters,
            "repaired": self.repaired,
            "already_there": self.there,
            "kept": self.kept,
            "unsettled": self.unsettled,
            "unknown": self.unknown,
            "still": dict(sorted(self.still.items())),
            "examples": [
                {
                    "topic": each.topic,
                    "id": each.id,
                    "code": each.code,
                    "fields": list(each.fields),
                    "error": each.error[:ERROR_CHARS_MAX],
                }
                for each in self.examples
            ],
        }
