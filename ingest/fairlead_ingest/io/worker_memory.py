"""Keeps the garbage collector from scanning the imported modules of Spark's Python workers after every task.

    a task ends ─▶ its worker answers Spark ─▶ collects garbage ─▶ takes the next task

Spark makes its workers collect garbage after every task. Nearly all their objects belong to modules: scanning 100,000
objects takes 25 ms of CPU in the two workers of each task and in the one that commits. ``gc.freeze`` excludes them.
"""

from __future__ import annotations

import gc
import os
from typing import Final

# Spark sets this variable in workers that are reused for further tasks.
REUSED: Final = "SPARK_REUSE_WORKER"

_settled = False


def settle() -> None:
    """Freeze the collector once, after a worker's first task, when everything is imported; elsewhere do nothing."""
    global _settled
    if not _settled and os.environ.get(REUSED):
        _settled = True
        gc.freeze()
