"""Two backfills into one table at once, one of them killed with SIGKILL at each step, and run again.

python -m tests.support.kills.backfill_steps FORMAT FOLDER EVERY   →  one JSON line for each life that was killed

Each life is a separate fork (``lives``).
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.kills import lives
from tests.support.kills.batch_steps import STEPS
from tests.support.tables.letters_world import World, name, payload
from tests.support.tables.table_formats import format_of

import fairlead_ingest.io.table.iceberg.format  # noqa: F401 - once, not in each life

MESSAGES = 8
AT_A_TIME = 3
BROKEN = {1, 6}


def backfill(kind: str, folder: Path) -> None:
    world = _world(kind, folder)
    # Over midnight.
    world.publish({each * 4: b"broken" if each in BROKEN else payload(each * 4) for each in range(MESSAGES)})
    world.backfill(at_a_time=AT_A_TIME, jobless=True)


def write_found(kind: str, folder: Path) -> None:
    """How often each message is a row, and a dead letter."""
    world = _world(kind, folder)
    known = {name(number * 4): number for number in range(MESSAGES)}
    counts = {"rows": world.rows(), "letters": world.letters()}
    found = {what: sorted(known[each] for each in counter.elements()) for what, counter in counts.items()}
    (folder / "found.json").write_text(json.dumps(found))


def main(kind: str, folder: Path, every: int) -> None:
    """Kill at the first step and after every `every` further steps, up to the last step of a single backfill.

    Of two at once, the slower one has less to do and may end before its step; then it runs alone and is killed there,
    so that the killed steps do not depend on the speed of the machine.
    """
    place = folder / "counted"
    place.mkdir()
    trace = place / "trace"
    lives.life(partial(_world, kind, place), trace)
    lives.life(partial(lives.count, STEPS, partial(backfill, kind, place), place / "steps"), trace)
    steps = int((place / "steps").read_text())
    for last in range(1, steps + 1, every):
        found = _kill(kind, folder / str(last), last, beside=True)
        if not found["killed"]:
            print(json.dumps(found), flush=True)
            found = _kill(kind, folder / f"{last}-alone", last, beside=False)
        print(json.dumps({**found, "of": steps}), flush=True)


def _kill(kind: str, place: Path, last: int, *, beside: bool) -> dict[str, Any]:
    """Kill one at its step number `last`, with another at the same time or after it; then run it again."""
    place.mkdir()
    act, trace = partial(backfill, kind, place), place / "trace"
    lives.life(partial(_world, kind, place), trace)
    one = lives.begin(partial(lives.die_at, last, STEPS, act), trace)
    if beside:
        other = lives.begin(act, trace)
        died, ended = lives.end(one), lives.end(other)
    else:
        died, ended = lives.end(one), lives.life(act, trace)
    is_killed = lives.was_killed(died)
    again = lives.life(act, trace) if is_killed else died
    ended = ended or again or lives.life(partial(write_found, kind, place), trace)
    answer = json.loads((place / "found.json").read_text()) if ended == 0 else {}
    return {"step": last, "killed": is_killed, "ended": ended, "trace": lives.said(trace), **answer}


def _world(kind: str, folder: Path) -> World:
    return World(format_of(kind, folder), folder / "rows")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
