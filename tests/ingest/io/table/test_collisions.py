"""A commit that collides is tried again, up to a limit that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table import collisions
from fairlead_ingest.table.commit import Collided

TABLE = Path("/tables/rows")


class Attempt:
    """Collides so often, then returns which try it was."""

    def __init__(self, collisions: int, *unanswered: errors.Wait | None) -> None:
        self.left, self.tried, self.unanswered = collisions, 0, list(unanswered)

    def __call__(self) -> int:
        self.tried += 1
        if self.left:
            self.left -= 1
            raise Collided("another writer was first", self.unanswered.pop(0) if self.unanswered else None)
        return self.tried


def test_it_is_tried_as_often_as_others_were_first():
    assert collisions.retried(TABLE, Attempt(2), tries=3) == 3
    assert collisions.retried(TABLE, Attempt(2), tries=3, pause_seconds=1e-6, pause_seconds_max=1e-6) == 3


def test_others_that_commit_all_the_time_stop_it():
    attempt = Attempt(100)
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_TAKEN}: /tables/rows"):
        collisions.retried(TABLE, attempt, tries=3)
    assert attempt.tried == 3


def test_a_store_that_gave_no_answer_is_waited_for():
    away = errors.Wait(errors.STORE_AWAY, "no answer")
    with pytest.raises(errors.Wait, match="no answer"):
        collisions.retried(TABLE, Attempt(100, None, away, None), tries=3)
