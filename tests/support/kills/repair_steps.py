"""A repair killed with SIGKILL at each step, and run again by a new process.

python -m tests.support.kills.repair_steps FORMAT FOLDER EVERY   →  one JSON line for each step at which it was killed

Each life is a separate fork (``lives``).
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.kills import lives
from tests.support.kills.batch_steps import STEPS
from tests.support.tables.letters_world import World, name, payload

from fairlead_ingest.io.table import tables

MESSAGES = 8
UNFIT = {1, 4, 6}


def prepare(kind: str, folder: Path) -> None:
    """Three dead letters, read by a job that has finished, on two days."""
    world = _world(kind, folder)
    world.publish({number * 4: payload(number * 4) for number in range(MESSAGES)})
    world.unfit = {number * 4 for number in UNFIT}
    world.run_job((MESSAGES - 1) * 4)


def repair(kind: str, folder: Path) -> None:
    _world(kind, folder).repair()


def found(kind: str, folder: Path) -> dict[str, Any]:
    """How often each message is a row, a dead letter, a repair mark."""
    world = _world(kind, folder)
    known = {name(number * 4): number for number in range(MESSAGES)}
    counts = {"rows": world.rows(), "letters": world.letters(), "marks": world.marks()}
    return {what: sorted(known[each] for each in counter.elements()) for what, counter in counts.items()}


def _world(kind: str, folder: Path) -> World:
    return World(tables.of(kind), folder / "rows")


def main(kind: str, folder: Path, every: int) -> None:
    """Kill at the first step and after every `every` further steps, until a repair completes."""
    trace, last = folder / "trace", 1
    if lives.life(partial(prepare, kind, folder / "begin"), trace):
        raise SystemExit(lives.said(trace))
    while True:
        place = folder / str(last)
        shutil.copytree(folder / "begin", place)
        ended = lives.life(partial(lives.die_at, last, STEPS, partial(repair, kind, place)), trace)
        is_killed = lives.was_killed(ended)
        if is_killed:
            ended = lives.life(partial(repair, kind, place), trace)
        if ended == 0:
            ended = lives.life(partial(_write_found, kind, place), trace)
        answer = json.loads((place / "found.json").read_text()) if ended == 0 else {"trace": lives.said(trace)}
        print(json.dumps({"step": last, "killed": is_killed, **answer}), flush=True)
        if not is_killed:
            return
        shutil.rmtree(place)
        last += every


def _write_found(kind: str, folder: Path) -> None:
    (folder / "found.json").write_text(json.dumps(found(kind, folder)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
