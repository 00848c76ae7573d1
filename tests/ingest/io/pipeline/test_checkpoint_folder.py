"""The folder of a query's checkpoint, filled from its copy where that fits the table."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.tables.delta_rows import SCHEMA, TOPIC, written

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import checkpoint_mirror, spark_checkpoint
from fairlead_ingest.io.pipeline.checkpoint_folder import LOCK, CheckpointFolder
from fairlead_ingest.io.sink.batch_commit import BatchCommit
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import StorePath

pytestmark = pytest.mark.process
DELTA = tables.of("delta")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    delta.ensure(tmp_path / "rows", SCHEMA)
    return tmp_path / "rows"


def end(batch: int) -> Offsets:
    start = f"{batch:02}" if batch else ""
    offset = TopicOffset(generation=1, position=f"{batch + 1:02}", start_generation=1, start_position=start, rows=1)
    return Offsets(service="s", topics={TOPIC: offset})


def plan(folder: Path, batch: int, query: str = "q") -> None:
    for path, text in {
        "metadata": json.dumps({"id": query}),
        f"offsets/{batch}": f"v1\n{{}}\n{json.dumps(end(batch).to_dict())}",
        **({f"commits/{batch - 1}": "v1\n{}"} if batch else {}),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def commit(table: Path, folder: Path, batch: int, checkpoint: str = "") -> None:
    BatchCommit(
        table_format=DELTA,
        application=spark_checkpoint.application(folder),
        number=batch,
        end=end(batch),
        before=end(batch - 1) if batch else None,
        checkpoint=checkpoint,
    ).append(table, written(table, f"{batch + 1:02}"), BatchCounts(rows=1))


def restored(place: StorePath, table: Path) -> int | None:
    """The batch another machine goes on with, None where it begins anew."""
    other = CheckpointFolder(place, "p")
    try:
        other.fill(DELTA, table)
        if spark_checkpoint.is_fresh(other.path):
            assert [each.name for each in other.path.iterdir()] == [LOCK]
            return None
        return spark_checkpoint.last_planned(other.path)
    finally:
        other.close()
        assert not other.path.exists()


def test_another_machine_goes_on_where_the_copy_fits_the_table_and_anew_where_it_is_older(store, table):
    place = store.place("fits/checkpoint")
    here = CheckpointFolder(place, "p")
    here.fill(DELTA, table)
    assert restored(place, table) is None, "there is no copy yet"
    for batch in range(3):
        plan(here.path, batch)
        checkpoint_mirror.save(here.path, place, batch)
        assert restored(place, table) == batch, "the table does not have the batch"
        commit(table, here.path, batch)
        assert restored(place, table) == batch, "the table has the batch"
    for batch in (3, 4):
        plan(here.path, batch)
        commit(table, here.path, batch)
    assert restored(place, table) is None, "the table is ahead: a new application goes on from it"
    here.close()


def test_a_copy_of_another_job_than_the_tables_is_left_to_the_start_which_refuses_it(store, table, tmp_path):
    """Two jobs with checkpoints of their own would else take turns."""
    place = store.place("other/checkpoint")
    plan(tmp_path / "mine", 0)
    checkpoint_mirror.save(tmp_path / "mine", place, 0)
    plan(tmp_path / "other", 0, "another")
    commit(table, tmp_path / "other", 0)
    assert restored(place, table) == 0
    with pytest.raises(errors.Stop, match="FAIRLEAD_TABLE_TAKEN"):
        commit(table, tmp_path / "mine", 0)


def test_a_job_whose_table_another_checkpoints_job_goes_on_with_is_refused_and_stays_so(store, table, tmp_path):
    """Restarted it would else begin anew and take over, then the other, and so on for ever."""
    ours, theirs = store.place("turns/ours"), store.place("turns/theirs")
    here = CheckpointFolder(ours, "p")
    here.fill(DELTA, table)
    for batch in (0, 1):
        plan(here.path, batch)
        checkpoint_mirror.save(here.path, ours, batch)
        commit(table, here.path, batch, str(ours))
    other = CheckpointFolder(theirs, "p")
    other.fill(DELTA, table)
    # It goes on from the table with batches of its own; here the same positions count.
    for batch in (2, 3):
        plan(other.path, batch, "theirs")
        checkpoint_mirror.save(other.path, theirs, batch)
        commit(table, other.path, batch, str(theirs))
    plan(here.path, 2)
    checkpoint_mirror.save(here.path, ours, 2)
    with pytest.raises(errors.Stop, match="FAIRLEAD_TABLE_TAKEN"):
        commit(table, here.path, 2, str(ours))
    here.close()
    for _ in range(2):
        with pytest.raises(
            errors.Stop,
            match=f"FAIRLEAD_TABLE_TAKEN: .* the checkpoint {theirs} now fills it, .* checkpoint is {ours}[.]",
        ):
            restored(ours, table)
    assert restored(theirs, table) == 3
    # With a new checkpoint it takes over, and the other one is refused from then on.
    anew = CheckpointFolder(store.place("turns/anew"), "p")
    anew.fill(DELTA, table)
    plan(anew.path, 4, "anew")
    commit(table, anew.path, 4, "s3://tables/turns/anew")
    with pytest.raises(errors.Stop, match=r"the checkpoint s3://tables/turns/anew now fills it"):
        restored(theirs, table)
    anew.close()
    other.close()


def test_an_older_copy_of_the_same_checkpoint_begins_anew_whatever_queries_filled_the_table(store, table, tmp_path):
    """A machine that was cut off wrote its copy over that of the one that had taken over."""
    place = store.place("cut-off/checkpoint")
    plan(tmp_path / "old", 0, "old")
    commit(table, tmp_path / "old", 0, str(place))
    for batch in range(1, 12):
        plan(tmp_path / "new", batch, "new")
        commit(table, tmp_path / "new", batch, str(place))
    plan(tmp_path / "old", 1, "old")
    checkpoint_mirror.save(tmp_path / "old", place, 1)
    assert restored(place, table) is None


def test_of_two_machines_with_one_copy_the_other_may_have_planned_the_batch_further(store, table):
    """The same query and number, another end: the copy would count it as done, and begin where the table is no more."""
    place = store.place("further/checkpoint")
    here = CheckpointFolder(place, "p")
    here.fill(DELTA, table)
    plan(here.path, 0)
    checkpoint_mirror.save(here.path, place, 0)
    further = end(0).topics[TOPIC]
    there = TopicOffset(generation=1, position="03", start_generation=1, start_position="", rows=3)
    application = spark_checkpoint.application(here.path)
    BatchCommit(
        table_format=DELTA, application=application, number=0, end=Offsets(service="s", topics={TOPIC: there})
    ).append(table, written(table, "01", "02", "03"), BatchCounts(rows=3))
    here.close()
    assert further.position == "01" and restored(place, table) is None


def test_of_two_machines_that_began_at_once_one_goes_on_after_both_have_ended(store, table):
    """The copy may be of the one whose batch was refused; the table knows how far it is."""
    place = store.place("at-once/checkpoint")
    first, second = (CheckpointFolder(place, "p") for _ in range(2))
    for each, query in ((first, "one"), (second, "two")):
        each.fill(DELTA, table)
        plan(each.path, 0, query)
    for each in (first, second):
        checkpoint_mirror.save(each.path, place, 0)
    commit(table, first.path, 0)
    with pytest.raises(errors.Stop, match="FAIRLEAD_TABLE_TAKEN"):
        commit(table, second.path, 0)
    first.close()
    second.close()
    assert restored(place, table) is None


def test_what_spark_noted_last_is_kept_at_the_end_unless_the_table_went_on_without_it(store, table):
    place = store.place("kept/checkpoint")
    here = CheckpointFolder(place, "p")
    here.keep(DELTA, table)
    here.fill(DELTA, table)
    here.keep(DELTA, table)
    assert checkpoint_mirror.page_of(place) is None
    plan(here.path, 0)
    commit(table, here.path, 0)
    here.keep(DELTA, table)
    assert checkpoint_mirror.page_of(place) is None, "Spark does not know the batch"
    plan(here.path, 1)
    (here.path / "offsets/1").unlink()
    here.keep(DELTA, table)
    page = checkpoint_mirror.page_of(place)
    assert page is not None and "commits/0" in page.texts
    commit(table, here.path, 1)
    plan(here.path, 2)
    (here.path / "offsets/2").unlink()
    (here.path / "commits/1").unlink()
    here.keep(DELTA, table)
    again = checkpoint_mirror.page_of(place)
    assert again == page, "another machine has committed since"
    here.close()


def test_folders_of_killed_processes_are_taken_away_and_those_in_use_are_not(store, table):
    place = store.place("left/checkpoint")
    used = CheckpointFolder(place, "p")
    left = CheckpointFolder(place, "p")
    assert left._lock is not None
    os.close(left._lock)  # as a kill does
    other = CheckpointFolder(place, "p")
    assert used.path.exists() and not left.path.exists()
    used.close()
    other.close()


def test_a_folder_of_the_settings_is_that_folder(tmp_path, table):
    plan(tmp_path / "own", 0)
    own = CheckpointFolder(tmp_path / "own", "p")
    own.fill(DELTA, table)
    own.keep(DELTA, table)
    own.close()
    assert own.path == tmp_path / "own" and spark_checkpoint.last_planned(own.path) == 0
