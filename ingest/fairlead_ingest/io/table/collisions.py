"""Retries commits that collide with those of other writers."""

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
    """Call ``attempt``, which reads the table, decides and commits, until it does not raise ``Collided``.

    The pause before retry N is random, at most N times ``pause_seconds``. After the last try, raises ``Wait`` if the
    store did not answer, else ``Stop``.
    """
    away: errors.Wait | None = None
    for number in range(tries):
        if number and pause_seconds:
            time.sleep(random.uniform(0, min(pause_seconds_max, pause_seconds * number)))
        try:
            return attempt()
        except Collided as error:
            away = error.unanswered or away
    raise away or errors.Stop(errors.TABLE_TAKEN, f"{table}: other jobs keep committing to it")
