"""What a Python worker of Spark has imported is not searched for garbage again and again.

    a task ends ─▶ its worker answers Spark ─▶ collects garbage ─▶ takes the next task

Spark has its workers collect after every task. Nearly all they hold are modules: 100,000 objects, 25 ms of CPU, in the
two workers of each task and in the one that commits. What is set aside once is left out from then on.
"""

from __future__ import annotations

import gc
import os
from typing import Final

# Spark's own word to workers that live on for further tasks.
REUSED: Final = "SPARK_REUSE_WORKER"

_settled = False


def settle() -> None:
    """After a piece of work of a worker, when all it needs is imported: once in a worker's life, elsewhere never."""
    global _settled
    if not _settled and os.environ.get(REUSED):
        _settled = True
        gc.freeze()
