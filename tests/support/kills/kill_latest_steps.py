"""Rows and their latest table, killed with SIGKILL at each step, and gone on with by a new process.

python -m tests.support.kills.kill_latest_steps FOLDER EVERY   →  one JSON line for each step that was the last

The parent only imports; each life is a fork of its own.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from tests.support.kills.kill_steps import kill_at
from tests.support.tables.latest_rows import Row, append, content, model

from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.latest import buckets
from fairlead_ingest.latest.definition import Definition

DEFINITION: Final = Definition(key=("node",), delete_when={"op": ("d",)})
BATCHES: Final = [
    [Row(node=f"n{number}", number=number) for number in range(1, 6)],
    [Row(node="n1", number=7), Row(node="n2", number=8, op="d"), Row(node="n9", number=9)],
    [Row(node="n1", number=6), Row(node="n2", number=4)],
    [Row(node=f"m{number}", number=10 + number) for number in range(8)],
]


def live(folder: Path) -> None:
    """All that a job does, from wherever the life before it ended."""
    buckets.KEYS_MAX = 4  # type: ignore[misc] # so that they are split on the way
    rows, latest = folder / "rows", folder / "rows_latest"
    for number, batch in enumerate(BATCHES):
        if held(rows) <= sum(len(each) for each in BATCHES[:number]):
            append(rows, batch)
        if number == 2 and len(DeltaTable(str(rows)).file_uris()) > 2:
            DeltaTable(str(rows)).optimize.compact()
            DeltaTable(str(rows)).vacuum(0, dry_run=False, enforce_retention_duration=False)
        refresh(rows, latest, DEFINITION)
    latest_table.vacuum(latest, 1)


def held(rows: Path) -> int:
    """Rows that are in."""
    return DeltaTable(str(rows)).to_pyarrow_table().num_rows if (rows / "_delta_log").is_dir() else 0


def forked(do: Callable[[], None]) -> int:
    """Its exit status, or the number of the signal as a negative one."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
        except BaseException:  # noqa: BLE001 - the parent counts it as wrong
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main(folder: Path, every: int) -> None:
    """Until a life ends before it is killed."""
    step = 1
    while True:
        here = folder / str(step)
        here.mkdir()

        def killed(step: int = step, here: Path = here) -> None:
            kill_at(step)
            live(here)

        def check(here: Path = here) -> None:
            live(here)
            rows = [row for batch in BATCHES for row in batch]
            assert held(here / "rows") == len(rows)
            assert content(here / "rows_latest", DEFINITION) == model(rows, DEFINITION)

        ended = forked(killed)
        print(json.dumps({"step": step, "killed": ended < 0, "right": forked(check) == 0}), flush=True)
        if ended >= 0:
            return
        step += every


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
