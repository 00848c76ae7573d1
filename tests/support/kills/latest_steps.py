"""Rows and their latest table, killed with SIGKILL at each step, and continued by a new process.

python -m tests.support.kills.latest_steps FOLDER EVERY   →  one JSON line for each step at which it was killed

Each life is a separate fork (``lives``).
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from tests.support.kills import lives
from tests.support.kills.batch_steps import STEPS
from tests.support.tables.latest_rows import Row, append, content, model

from fairlead_ingest.io.latest import latest_table
from fairlead_ingest.io.latest.refresh import refresh
from fairlead_ingest.latest import newest
from fairlead_ingest.latest.definition import LatestDefinition

DEFINITION: Final = LatestDefinition(key=("node",), delete_when={"op": ("d",)})
BATCHES: Final = [
    [Row(node=f"n{number}", number=number) for number in range(1, 6)],
    [Row(node="n1", number=7), Row(node="n2", number=8, op="d"), Row(node="n9", number=9)],
    [Row(node="n1", number=6), Row(node="n2", number=4)],
    [Row(node=f"m{number}", number=10 + number) for number in range(8)],
]


def live(folder: Path) -> None:
    """The work of a job, from where the previous life ended."""
    newest.KEYS_MAX = 4  # type: ignore[misc] # so that they are split on the way
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
    """The rows in the table."""
    return DeltaTable(str(rows)).to_pyarrow_table().num_rows if (rows / "_delta_log").is_dir() else 0


def check(folder: Path) -> None:
    """Continue from there: every row must be in the table once, and the latest table must be correct."""
    live(folder)
    rows = [row for batch in BATCHES for row in batch]
    assert held(folder / "rows") == len(rows)
    assert content(folder / "rows_latest", DEFINITION) == model(rows, DEFINITION)


def main(folder: Path, every: int) -> None:
    """Kill at later and later steps until a life completes."""
    step = 1
    while True:
        here = folder / str(step)
        here.mkdir()

        trace = folder / f"{step}.trace"
        killed = lives.was_killed(lives.life(partial(lives.die_at, step, STEPS, partial(live, here)), trace))
        right = lives.life(partial(check, here), trace) == 0
        print(json.dumps({"step": step, "killed": killed, "right": right, "trace": lives.said(trace)}), flush=True)
        if not killed:
            return
        step += every


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
