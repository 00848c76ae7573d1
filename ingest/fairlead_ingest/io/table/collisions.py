"""Commits that collide are tried again, as often as other writers may be first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from fairlead_ingest import errors
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

T = TypeVar("T")


def retried(
    table: Place, attempt: Callable[[], T], *, tries: int, pause_seconds: float = 0.0, pause_seconds_max: float = 0.0
) -> T:
    """What ``attempt`` returns, which looks at the table, decides and commits; ``Collided`` says that it has to again.

    Before try number N at most N times ``pause_seconds`` pass. After the last, raises ``Wait`` where the store gave no
    answer, else ``Stop``: other jobs commit all the time.
    """
    away: errors.Wait | None = None
    for number in range(tries):
        if number and pause_seconds:
            time.sleep(random.uniform(0, min(pause_seconds_max, pause_seconds * number)))
        try:
            return attempt()
        except Collided as error:
            away = error.unanswered or away
    raise away or errors.Stop(errors.TABLE_TAKEN, f"{table}: other jobs commit to it all the time")
