"""Two backfills into one table at once, one of them killed with SIGKILL at each step, and run again.

python -m tests.support.kills.backfill_kill_steps FORMAT FOLDER EVERY   →  one JSON line for each step that was the last

As in kill_steps: the parent only imports, each life is a fork of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.support.kills.kill_steps import kill_at
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
        act = partial(backfill, kind, place)
        _end(_life(partial(_world, kind, place), place / "trace"))
        lives = [_life(partial(_die_at, last, act), place / "trace"), _life(act, place / "trace")]
        killed, other = map(_end, lives)
        again = _end(_life(act, place / "trace")) if killed == -signal.SIGKILL else killed
        ended = other or again or _end(_life(partial(write_found, kind, place), place / "trace"))
        answer = json.loads((place / "found.json").read_text()) if ended == 0 else {}
        trace = (place / "trace").read_text() if (place / "trace").exists() else ""
        is_killed = killed == -signal.SIGKILL
        print(json.dumps({"step": last, "killed": is_killed, "ended": ended, "trace": trace, **answer}), flush=True)
        if not is_killed:
            return
        last += every


def _world(kind: str, folder: Path) -> World:
    return World(format_of(kind, folder), folder / "rows")


def _life(act: Callable[[], object], trace: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        act()
        code = 0
    except BaseException:  # noqa: BLE001 - the parent prints it
        trace.write_text(traceback.format_exc())
        code = 1
    os._exit(code)


def _end(pid: int) -> int:
    """0, or the signal's number negative."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _die_at(last: int, act: Callable[[], None]) -> None:
    kill_at(last)
    act()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
