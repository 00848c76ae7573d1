"""A job, backfills and compactions of one table, each killed anywhere: every row that one brought is there once.

    commit of one  ─▶  others, whole, before it  ─▶  killed before, committed, or committed and killed

What was killed is done again. A nested call stands for another process: it opens the table for itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables.delta_rows import SCHEMA, TOPIC, written

from fairlead_ingest.io.sink import batch_commit
from fairlead_ingest.io.sink.batch_commit import BatchCommit
from fairlead_ingest.io.table import delta, maintenance, tables
from fairlead_ingest.io.table.delta import log_writer
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts

DELTA = tables.of("delta")
EACH = 3
"""Messages of a batch; the job brings all but the last one, so that backfills have something to bring."""
ACTS = 14
DEPTH_MAX = 2
TARGET = 128 * 1024 * 1024


class Killed(BaseException):
    """kill -9: nothing of the program runs after it."""


def name(number: int) -> str:
    return f"{number:06}"


def end(batch: int) -> Offsets:
    start = name(batch * EACH) if batch else ""
    offset = TopicOffset(
        generation=1, position=name((batch + 1) * EACH), start_generation=1, start_position=start, rows=EACH
    )
    return Offsets(service="s", topics={TOPIC: offset})


class World:
    """One table and those who write it; what they do, and when they die, follows from ``seed``."""

    def __init__(self, table: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = table
        self.batches = 0
        self.brought: set[str] = set()
        self.kills = self.nested = 0
        self._choice = random.Random(seed)
        self._depth = 0
        self._is_job_at_work = False
        self._commit = log_writer._commit
        monkeypatch.setattr(log_writer, "_commit", self.commit)
        delta.ensure(table, SCHEMA)

    def commit(self, *given: Any) -> None:
        while self._choice.random() < 0.4 and self._depth < DEPTH_MAX:
            self._depth += 1
            self.nested += 1
            self.act()
            self._depth -= 1
        fate = self._choice.random()
        if fate < 0.1:
            raise Killed
        self._commit(*given)
        if fate > 0.9:
            raise Killed

    def act(self) -> None:
        doing = self._chosen()
        depth = self._depth
        while True:
            try:
                doing()
                return
            except Killed:
                self.kills += 1
                self._depth = depth

    def ids(self) -> list[str]:
        found: list[str] = tables.existing(DELTA, self.table).to_table(columns=["_id"])["_id"].to_pylist()
        return found

    # --- inside

    def _chosen(self) -> Callable[[], None]:
        acts: list[Callable[[], None]] = [self._compact]
        # Of the job there is one, which may be at work already.
        if not self._is_job_at_work:
            acts += [self._job] * 2
        if upto := self.batches * EACH:
            wanted = [name(each) for each in self._choice.sample(range(1, upto + 1), self._choice.randint(1, EACH))]
            acts += [lambda: self._backfill(sorted(wanted))]
        return self._choice.choice(acts)

    def _job(self) -> None:
        self._is_job_at_work = True
        batch = self.batches
        ids = [name(batch * EACH + each) for each in range(1, EACH)]
        BatchCommit(
            table_format=DELTA,
            application="app",
            number=batch,
            end=end(batch),
            before=end(batch - 1) if batch else None,
        ).append(self.table, written(self.table, *ids), BatchCounts(rows=len(ids)))
        self.batches += 1
        self.brought |= set(ids)
        self._is_job_at_work = False

    def _backfill(self, ids: list[str]) -> None:
        batch_commit.append_backfill(DELTA, self.table, written(self.table, *ids), [])
        self.brought |= set(ids)

    def _compact(self) -> None:
        maintenance.delta_compaction(self.table).compact(target_bytes=TARGET)


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(6))
def test_each_row_is_there_once_whatever_is_killed_beside_a_compaction(seed, tmp_path, monkeypatch):
    world = World(tmp_path / "rows", seed, monkeypatch)
    for _ in range(ACTS):
        world.act()
    assert Counter(world.ids()) == Counter(world.brought)
    assert world.kills and world.nested and world.batches
