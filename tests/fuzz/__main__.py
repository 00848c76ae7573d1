"""``make fuzz``: search every parser at random, on all cores, for inputs that break it; exit 1 if there is one.

    python -m tests.fuzz --seconds 3600
    python -m tests.fuzz --only route-manifest,link-from-hub --seconds 60
    python -m tests.fuzz --seed 17

An input that breaks a parser is minimised and written to ``tests/corpus/<parser>/found-…`` with a sentence beside it:
fix the parser, and commit both.  Inputs that reached new code are kept in ``build/fuzz``, where the next run continues;
``--distil`` puts the few that reach all of it into ``tests/corpus``.

The last line of standard output is JSON: inputs tried for each parser, in all, and how many findings.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections import Counter
from functools import partial

import click
from tests.fuzz import corpus, workers
from tests.fuzz.coverage import Coverage
from tests.fuzz.minimise import minimise
from tests.fuzz.search import Slice
from tests.fuzz.target import ROOT, Finding, Target, attempt
from tests.fuzz.targets import TARGETS

ROUND_SECONDS = 10.0
"""The most time for one parser in one round; with more rounds it continues from what other processes found."""
QUIET_SECONDS = 10.0
"""The interval between lines of progress if standard error is not a terminal."""
COLUMNS_MAX = 79


@click.command(help=__doc__)
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="For all parsers together."
)
@click.option("--only", default="", metavar="PARSER,…", help="These parsers only.")
@click.option("--seed", default="", help="The same chance again; how far it gets still depends on the machine.")
@click.option("--cores", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Processes at once.")
@click.option("--distil", is_flag=True, help="Search nothing: put what was found to reach new code into tests/corpus.")
def main(seconds: float, only: str, seed: str, cores: int, distil: bool) -> None:
    chosen = _chosen(only)
    if distil:
        _distil(chosen)
        return
    seed = seed or secrets.token_hex(4)
    print(f"fuzz: {len(chosen)} parsers, {seconds:g} s on {cores} cores, seed {seed}", file=sys.stderr)
    progress = _Progress(seconds)
    findings: dict[tuple[str, str, str], tuple[Target, bytes, Finding]] = {}
    for target, found in workers.run(_slices(chosen, seed, seconds, cores), cores):
        for content in found.kept:
            corpus.keep(target.name, content)
        for same, (content, finding) in found.findings.items():
            findings.setdefault((target.name, *same), (target, content, finding))
        progress.add(target, found, len(findings))
    progress.end()
    for target, content, finding in findings.values():
        _report(target, content, finding)
    inputs = {name: progress.tried[name] for name in chosen}
    print(json.dumps({"inputs": inputs, "total": sum(inputs.values()), "findings": len(findings), "seed": seed}))
    sys.exit(1 if findings else 0)


def _chosen(only: str) -> dict[str, Target]:
    names = [each for each in only.split(",") if each] or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        raise click.BadParameter(f"no parser {unknown[0]}; there are {', '.join(TARGETS)}", param_hint="--only")
    return {name: TARGETS[name] for name in names}


def _slices(chosen: dict[str, Target], seed: str, seconds: float, cores: int) -> list[tuple[Target, str, float]]:
    """Time slices: every parser in each round, none longer than its share."""
    share = seconds * cores / len(chosen)
    rounds = max(1, round(share / ROUND_SECONDS))
    return [(target, f"{seed} {number}", share / rounds) for number in range(rounds) for target in chosen.values()]


def _report(target: Target, content: bytes, finding: Finding) -> None:
    if finding.kind not in ("Crash", "Hang", "Memory", "TooSlow", "MemoryError"):
        content = minimise(content, partial(_does_the_same, target, finding))
    path = corpus.write_finding(target.name, content, f"{target.says} {finding.sentence}")
    print(f"{target.name}: {finding.sentence}\n  {path.relative_to(ROOT)}: {content[:200]!r}")


def _does_the_same(target: Target, wanted: Finding, content: bytes) -> bool:
    found = attempt(target, content)
    return found is not None and found.same == wanted.same


def _distil(chosen: dict[str, Target]) -> None:
    """Keep, for each parser, the inputs that reach code which shorter ones do not."""
    for name, target in chosen.items():
        coverage, kept = Coverage(), 0
        for content in corpus.committed(name).values():
            coverage.of(partial(attempt, target, content))
        for content in sorted(corpus.grown(name).values(), key=len):
            if coverage.reaches_lines(partial(attempt, target, content)):
                corpus.keep(name, content, corpus.CORPUS)
                kept += 1
        print(f"{name}: {kept} of {len(corpus.grown(name))}")


class _Progress:
    """A line that is updated on a terminal; elsewhere a line from time to time."""

    def __init__(self, seconds: float) -> None:
        self.tried: Counter[str] = Counter()
        self._seconds, self._began = seconds, time.monotonic()
        self._last = self._began
        self._over = sys.stderr.isatty()

    def add(self, target: Target, found: Slice, findings: int) -> None:
        self.tried[target.name] += found.tried
        now = time.monotonic()
        if not self._over and now - self._last < QUIET_SECONDS:
            return
        self._last = now
        spent = now - self._began
        rate = self.tried.total() / max(spent, 0.001)
        tried = f"{self.tried.total():,} inputs, {rate:,.0f}/s, {findings} findings"
        text = f"fuzz: {spent:.0f} of {self._seconds:.0f} s, {tried}; {target.name}"[:COLUMNS_MAX]
        line, end = (f"\r{text:{COLUMNS_MAX}}", "") if self._over else (text, "\n")
        print(line, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._over:
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
