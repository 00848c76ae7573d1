"""Two backfills into one table at once, one of them killed with SIGKILL at each step, and run again.

python -m tests.support.kills.backfill_steps FORMAT FOLDER EVERY   →  one JSON line for each step that was the last

Each life is a fork of its own (``lives``).
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

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
    """How often each message is a row, and a letter."""
    world = _world(kind, folder)
    known = {name(number * 4): number for number in range(MESSAGES)}
    counts = {"rows": world.rows(), "letters": world.letters()}
    found = {what: sorted(known[each] for each in counter.elements()) for what, counter in counts.items()}
    (folder / "found.json").write_text(json.dumps(found))


def main(kind: str, folder: Path, every: int) -> None:
    """Kill at the first step, then each `every` steps later, until both end by themselves."""
    last = 1
    while True:
        place = folder / str(last)
        place.mkdir()
        act, trace = partial(backfill, kind, place), place / "trace"
        lives.life(partial(_world, kind, place), trace)
        both = [lives.begin(partial(lives.die_at, last, STEPS, act), trace), lives.begin(act, trace)]
        one, other = map(lives.end, both)
        is_killed = lives.was_killed(one)
        again = lives.life(act, trace) if is_killed else one
        ended = other or again or lives.life(partial(write_found, kind, place), trace)
        answer = json.loads((place / "found.json").read_text()) if ended == 0 else {}
        said = {"step": last, "killed": is_killed, "ended": ended, "trace": lives.said(trace), **answer}
        print(json.dumps(said), flush=True)
        if not is_killed:
            return
        last += every


def _world(kind: str, folder: Path) -> World:
    return World(format_of(kind, folder), folder / "rows")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
