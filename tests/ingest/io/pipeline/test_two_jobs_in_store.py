"""Two jobs, processes of their own, with checkpoints of their own in one store and one table: one of them fills it.

Batches as Spark drives them, without Spark; started again as often as they stop, as a kubelet does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.processes import wait_until
from tests.support.tables.delta_rows import SCHEMA, TOPIC
from tests.support.tables.object_store import ObjectStore

from fairlead_ingest.io.table import delta

ROOT = Path(__file__).resolve().parents[4]
REFUSED = 3
SECONDS = 240.0
PROGRAM = """
import json, sys, time, uuid
from pathlib import Path
from tests.support.tables.delta_rows import TOPIC, written
from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import checkpoint_mirror, spark_checkpoint
from fairlead_ingest.io.pipeline.checkpoint_folder import CheckpointFolder
from fairlead_ingest.io.sink.batch_commit import BatchCommit
from fairlead_ingest.io.table import tables
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import Storage, parse

place, table, delta = parse(sys.argv[1], Storage(**json.loads(sys.argv[3]))), Path(sys.argv[2]), tables.of("delta")

def end(batch):
    start = f"{batch:06}" if batch else ""
    offset = TopicOffset(generation=1, position=f"{batch + 1:06}", start_generation=1, start_position=start, rows=1)
    return Offsets(service="s", topics={TOPIC: offset})

def plan(folder, batch, query):
    for path, text in {
        "metadata": json.dumps({"id": query}),
        f"offsets/{batch}": f"v1\\n{{}}\\n{json.dumps(end(batch).to_dict())}",
        f"commits/{batch - 1}": "v1\\n{}",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

checkpoint = CheckpointFolder(place, "p")
folder = checkpoint.path
try:
    checkpoint.fill(delta, table)
    if spark_checkpoint.is_fresh(folder):
        held = delta.reached(table).topics.get(TOPIC)
        batch, query = int(held.position) if held else 0, uuid.uuid4().hex
    else:
        batch, query = spark_checkpoint.last_planned(folder), json.loads((folder / "metadata").read_text())["id"]
    while True:
        plan(folder, batch, query)
        checkpoint_mirror.save(folder, place, batch)
        BatchCommit(
            table_format=delta, application=spark_checkpoint.application(folder), number=batch, end=end(batch),
            before=end(batch - 1) if batch else None, checkpoint=str(place),
        ).append(table, written(table, f"{batch + 1:06}"), BatchCounts(rows=1))
        batch += 1
        time.sleep(0.05)
except errors.Stop as error:
    print(error, flush=True)
    sys.exit(3)
finally:
    checkpoint.close()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "store") as running:
        yield running


@pytest.mark.process
@pytest.mark.verify
def test_the_one_that_lost_is_refused_however_often_it_starts_and_the_other_goes_on(store, tmp_path):
    table = tmp_path / "rows"
    delta.ensure(table, SCHEMA)
    jobs: dict[str, subprocess.Popen[str]] = {}

    def start(name: str) -> None:
        command = [sys.executable, "-c", PROGRAM, str(store.place(name)), str(table), json.dumps(store.settings)]
        jobs[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def reached() -> int:
        held = delta.reached(table).topics.get(TOPIC)
        return int(held.position) if held else 0

    def loser() -> str:
        return next((name for name, job in jobs.items() if job.poll() is not None), "")

    try:
        start("a")
        wait_until("the first job commits", lambda: reached() > 2, seconds=SECONDS)
        start("b")
        wait_until("one of them is refused", lambda: bool(loser()), seconds=SECONDS)
        lost = loser()
        won = next(name for name in jobs if name != lost)
        for _ in range(2):
            said, _ = jobs[lost].communicate()
            assert (jobs[lost].returncode, said.partition(":")[0]) == (REFUSED, "FAIRLEAD_TABLE_TAKEN"), said
            start(lost)
        said, _ = jobs[lost].communicate(timeout=SECONDS)
        assert jobs[lost].returncode == REFUSED and f"the checkpoint {store.place(won)} now fills it" in said
        before = reached()
        wait_until("the other goes on", lambda: reached() > before + 2, seconds=SECONDS)
        assert jobs[won].poll() is None
    finally:
        for job in jobs.values():
            job.kill()
            job.communicate()
    found = delta.dataset(table)
    assert found is not None
    ids = Counter(found.to_table(columns=["_id"])["_id"].to_pylist())
    assert ids == Counter(f"{number:06}" for number in range(1, len(ids) + 1))
