"""One slice of a search: changed inputs to one target, for so many tries or seconds, on one core."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz import corpus
from tests.fuzz.coverage import Coverage
from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Finding, Target, attempt

TRACED, UNTRACED = 8, 32
"""In turn: a trace finds what to go on from, and costs as much time as four or five inputs without one."""
GROWN_MAX = 100
"""Inputs of earlier runs that one slice begins with: each is traced once, to know what is new."""
FINDINGS_MAX = 20
"""Of one slice; the rest is found again when these are mended."""


@dataclass
class Slice:
    """The result of a slice; inputs in ``kept`` reached new code."""

    tried: int = 0
    kept: list[bytes] = field(default_factory=list)
    findings: dict[tuple[str, str], tuple[bytes, Finding]] = field(default_factory=dict)

    def note(self, content: bytes, finding: Finding) -> None:
        """The shortest input of each finding."""
        known = self.findings.get(finding.same)
        if known is None or len(content) < len(known[0]):
            self.findings[finding.same] = content, finding


def try_some(target: Target, seed: str, tries: int) -> Slice:
    """Try the same inputs for the same seed and corpus, on any machine."""
    chance = random.Random(f"{target.name} {seed}")
    mutator = Mutator(target.shape, target.words, list(corpus.committed(target.name).values()))
    found = Slice()
    for _ in range(tries):
        content = mutator.next(chance)
        finding = attempt(target, content)
        found.tried += 1
        if finding is not None:
            found.note(content, finding)
    return found


def search(
    target: Target,
    seed: str,
    seconds: float,
    *,
    guarded: Callable[[Target, bytes], Finding | None] = attempt,
    clock: Callable[[], float] = time.monotonic,
) -> Slice:
    """Search guided by coverage.  ``guarded`` tries one input within the limits."""
    chance = random.Random(f"{target.name} {seed}")
    grown = sorted(corpus.grown(target.name).items())
    pool = {**corpus.committed(target.name), **dict(chance.sample(grown, min(len(grown), GROWN_MAX)))}
    mutator, coverage, found = Mutator(target.shape, target.words, list(pool.values())), Coverage(), Slice()

    def once(content: bytes) -> bool:
        def run() -> None:
            finding = guarded(target, content)
            if finding is not None:
                found.note(content, finding)

        found.tried += 1
        return coverage.of(run)

    until = clock() + seconds
    for content in pool.values():
        once(content)
    while clock() < until and len(found.findings) < FINDINGS_MAX:
        for _ in range(TRACED):
            content = mutator.next(chance)
            if once(content):
                mutator.pool.append(content)
                found.kept.append(content)
        for _ in range(UNTRACED):
            content = mutator.next(chance)
            finding = guarded(target, content)
            found.tried += 1
            if finding is not None:
                found.note(content, finding)
    return found
