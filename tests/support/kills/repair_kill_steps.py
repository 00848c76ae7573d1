"""A repair killed with SIGKILL at each step, and run again by a new process.

python -m tests.support.kills.repair_kill_steps FORMAT FOLDER EVERY   →  one JSON line for each step that was the last

As in kill_steps: the parent only imports, each life is a fork of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.kills.kill_steps import kill_at
from tests.support.tables.letters_world import World, name, payload

from fairlead_ingest.io.table import tables

MESSAGES = 8
UNFIT = {1, 4, 6}


def prepare(kind: str, folder: Path) -> None:
    """Three letters, read by a job that is done with them, over midnight."""
    world = _world(kind, folder)
    world.publish({number * 4: payload(number * 4) for number in range(MESSAGES)})
    world.unfit = {number * 4 for number in UNFIT}
    world.run_job((MESSAGES - 1) * 4)


def repair(kind: str, folder: Path) -> None:
    _world(kind, folder).repair()


def found(kind: str, folder: Path) -> dict[str, Any]:
    """How often each message is a row, a letter, a mark."""
    world = _world(kind, folder)
    known = {name(number * 4): number for number in range(MESSAGES)}
    counts = {"rows": world.rows(), "letters": world.letters(), "marks": world.marks()}
    return {what: sorted(known[each] for each in counter.elements()) for what, counter in counts.items()}


def _world(kind: str, folder: Path) -> World:
    return World(tables.of(kind), folder / "rows")


def _life(act: Callable[[], None], trace: Path) -> int:
    """Fork, act, and the way it ended: 0, or the signal's number negative."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        act()
        code = 0
    except BaseException:  # noqa: BLE001 - the parent prints it
        trace.write_text(traceback.format_exc())
        code = 1
    os._exit(code)


def main(kind: str, folder: Path, every: int) -> None:
    """Kill at the first step, then each `every` steps later, until a repair ends by itself."""
    trace, last = folder / "trace", 1
    if _life(partial(prepare, kind, folder / "begin"), trace):
        raise SystemExit(trace.read_text())
    while True:
        place = folder / str(last)
        shutil.copytree(folder / "begin", place)
        ended = _life(partial(_die_at, last, partial(repair, kind, place)), trace)
        is_killed = ended == -signal.SIGKILL
        if is_killed:
            ended = _life(partial(repair, kind, place), trace)
        if ended == 0:
            ended = _life(partial(_write_found, kind, place), trace)
        answer = json.loads((place / "found.json").read_text()) if ended == 0 else {"trace": trace.read_text()}
        print(json.dumps({"step": last, "killed": is_killed, **answer}), flush=True)
        if not is_killed:
            return
        shutil.rmtree(place)
        last += every


def _die_at(last: int, act: Callable[[], None]) -> None:
    kill_at(last)
    act()


def _write_found(kind: str, folder: Path) -> None:
    (folder / "found.json").write_text(json.dumps(found(kind, folder)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
