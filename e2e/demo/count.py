"""Checks that every accepted message became one row: the ledger of a run and its verdict.

publish answers ──accepted──► Ledger ──judge(rows)──► Verdict: lost, duplicated, foreign, per node and priority
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """One message that the edge accepted: its id, and when (Unix seconds) the response arrived."""

    id: str
    node: str
    priority: int
    at: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table, as far as counting needs it; times in Unix seconds."""

    id: str
    node: str
    priority: int
    enqueued: float
    published: float
    ingested: float


@dataclass(frozen=True, kw_only=True)
class Tally:
    """One line of the final table."""

    node: str
    priority: int
    accepted: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome; `ok` if nothing is lost, duplicated, misplaced or of unknown origin."""

    tallies: Sequence[Tally]
    lost: Sequence[str]
    duplicated: Sequence[str]
    foreign: Sequence[str]
    misplaced: Sequence[str]

    @property
    def ok(self) -> bool:
        """True when the counts agree to the last message."""
        return not (self.lost or self.duplicated or self.foreign or self.misplaced)


@dataclass(kw_only=True)
class Ledger:
    """Everything the edges accepted in this run."""

    accepted: dict[str, Accepted] = field(default_factory=dict)

    def note(self, message: Accepted) -> None:
        """Add one; two messages with the same id are an error of the edge and raise ValueError."""
        if message.id in self.accepted:
            raise ValueError(f"{message.node} answered the id {message.id} twice for different messages")
        self.accepted[message.id] = message

    def judge(self, rows: Iterable[Row]) -> Verdict:
        """Compare with what the table holds."""
        seen: Counter[str] = Counter()
        counted: Counter[tuple[str, int]] = Counter()
        misplaced: list[str] = []
        foreign: list[str] = []
        for row in rows:
            seen[row.id] += 1
            counted[row.node, row.priority] += 1
            known = self.accepted.get(row.id)
            if known is None:
                foreign.append(row.id)
            elif (known.node, known.priority) != (row.node, row.priority):
                misplaced.append(row.id)
        wanted = Counter((each.node, each.priority) for each in self.accepted.values())
        return Verdict(
            tallies=[
                Tally(node=node, priority=priority, accepted=wanted[node, priority], rows=counted[node, priority])
                for node, priority in sorted(wanted.keys() | counted.keys())
            ],
            lost=[id for id in self.accepted if id not in seen],
            duplicated=[id for id, times in seen.items() if times > 1],
            foreign=foreign,
            misplaced=misplaced,
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of them lie, by nearest rank; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
