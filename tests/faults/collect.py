"""Collect the long fault tests: real processes, killed at random, counted afterwards.

    tests/faults/fault_*.py ──run()──► collect ──► one line a test, faults.json beside the README

A module exposes `ROOM` (downstream, upstream, messaging, ingest), `KILLS` (its full dose) and
`run(kills, seed, progress)`, which returns a Count and may raise: a test that cannot finish counts as failed.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypedDict

FOLDER = Path(__file__).resolve().parent
ROOMS = ("downstream", "upstream", "messaging", "ingest")


class Count(TypedDict):
    """Result of a fault test: processes killed, messages acknowledged, and how many of them were lost, doubled or
    untrue."""

    kills: int
    acknowledged: int
    lost: int
    duplicated: int
    untrue: int


class Result(Count):
    """A Count with its origin; `error` is empty if the test ran to its end."""

    name: str
    room: str
    seed: int
    error: str


def modules(folder: Path = FOLDER) -> list[str]:
    """The importable names of every fault test, in alphabetical order."""
    return [f"tests.faults.{path.stem}" for path in sorted(folder.glob("fault_*.py"))]


def held(result: Result) -> bool:
    """True when the test ran, something was acknowledged, and nothing was lost, doubled or untrue."""
    wrong = result["lost"] + result["duplicated"] + result["untrue"]
    return not result["error"] and wrong == 0 and result["acknowledged"] > 0


def collect(
    only: str | None,
    kills: int | None,
    seed: int,
    names: Sequence[str],
    progress: Callable[[str], None],
    load: Callable[[str], ModuleType] = importlib.import_module,
) -> list[Result]:
    """Run the fault tests of `only` (None: all) with `kills` (None: each test's full dose)."""
    results: list[Result] = []
    for name in names:
        room = ""
        try:
            module = load(name)
            room = module.ROOM
            if only is not None and only != room:
                continue
            dose = module.KILLS if kills is None else kills
            progress(f"{name}: {dose} kills, seed {seed}")
            count: Count = module.run(dose, seed, progress)
            results.append(Result(name=name, room=room, seed=seed, error="", **count))
        except Exception as error:  # noqa: BLE001 - the other tests still have something to say
            progress(traceback.format_exc())
            nothing = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
            text = f"{type(error).__name__}: {error}"
            results.append(Result(name=name, room=room, seed=seed, error=text, **nothing))
    return results


def sentence(result: Result) -> str:
    """One result in one line."""
    counted = ", ".join(f"{key} {result[key]}" for key in ("kills", "acknowledged", "lost", "duplicated", "untrue"))
    return f"{'ok  ' if held(result) else 'FAIL'} {result['name']}: {result['error'] or counted}"
