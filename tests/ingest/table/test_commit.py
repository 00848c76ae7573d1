"""Deciding from the table's own log whether a batch is committed."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit, commit_info
from fairlead_ingest.table.commit import AlreadyIn, Append, NewestCounting, TableState
from fairlead_ingest.table.commit_info import BatchCounts


def ending(after: str, upto: str, *, service: str = "s", topic: str = "a/t") -> Offsets:
    return Offsets(
        service=service,
        topics={topic: TopicOffset(generation=1, position=upto, start_generation=1, start_position=after, rows=1)},
    )


def decide(state: TableState, end: Offsets, batch: int = 5) -> Append | AlreadyIn:
    return commit.decide(state, application="fairlead:q", batch=batch, end=end, counts=BatchCounts(rows=1))


def test_a_new_batch_leaves_its_number_and_its_positions():
    decided = decide(TableState(batch=4, reached=ending("", "0a"), commit_sequence=8), ending("0a", "0f"))
    assert isinstance(decided, Append)
    assert decided.transactions == {"fairlead:q": 5, commit.COMMIT_SEQUENCE: 9}
    assert decided.metadata["fairlead"]["rows"] == 1
    info = commit_info.read_commit_info(decided.metadata)
    assert info is not None and info.reached == Offsets(service="s", topics={"a/t": TopicOffset.at(1, "0f")})


@pytest.mark.parametrize("batch", [4, 5])
def test_a_batch_the_table_has_is_passed_over(batch):
    """The crash between table commit and Spark's commit log."""
    assert decide(TableState(batch=5, reached=ending("", "0f")), ending("0a", "0f"), batch) == AlreadyIn()


def test_a_batch_that_begins_before_what_the_table_holds_is_refused():
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_TAKEN: .*a/t up to 0f"):
        decide(TableState(reached=ending("", "0f")), ending("0a", "1f"))


def test_a_batch_that_begins_in_a_generation_before_the_tables_is_refused():
    """The topic was deleted and made again, and another job has read the new one: its rows would be there twice."""
    held = Offsets(service="s", topics={"a/t": TopicOffset.at(3, "0f")})
    again = TopicOffset(generation=3, position="1f", start_generation=2, start_position="ff", rows=1)
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        decide(TableState(reached=held), Offsets(service="s", topics={"a/t": again}))
    assert commit.is_ahead(held, "a/t", again)
    assert not commit.is_ahead(held, "a/t", again, of_end=True)
    assert not commit.is_ahead(Offsets(topics={"a/t": TopicOffset.at(2, "ff")}), "a/t", again)


def test_a_batch_that_begins_after_what_the_table_holds_is_refused():
    """The table was restored, or a power cut took its last commits; a side table gets few batches and may be behind."""
    state = TableState(reached=ending("", "0f"))
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_BEHIND: .*a/t up to 0f"):
        decide(state, ending("1f", "2f"))
    beside = commit.decide(state, application="q", batch=5, end=ending("1f", "2f"), is_side_table=True)
    assert isinstance(beside, Append)


def test_what_was_decided_holds_for_one_commit():
    decided = decide(TableState(commit_sequence=8), ending("", "0f"))
    assert isinstance(decided, Append)
    assert (decided.follows(8), decided.follows(9)) == (True, False)
    assert Append().follows(9)


def test_positions_guessed_from_rows_hold_for_any_generation():
    guessed = Offsets(topics={"a/t": TopicOffset.at(0, "0f")})
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        decide(TableState(reached=guessed), ending("", "1f"))


def test_a_table_of_another_service_is_left_alone():
    with pytest.raises(errors.Stop, match=errors.OTHER_SERVICE):
        decide(TableState(reached=ending("", "0a", service="other")), ending("0a", "0f"))


def test_pipelines_with_other_topics_share_a_table():
    decided = decide(TableState(reached=ending("", "0a", topic="b/t")), ending("", "0f"))
    assert isinstance(decided, Append)
    assert decided.info is not None and set(decided.info.reached.topics) == {"a/t", "b/t"}


def test_a_fresh_checkpoint_goes_on_from_the_table():
    """Where the table has a topic that is where it starts, whatever is configured; else as configured."""
    reached = Offsets(topics={"a/t": TopicOffset.at(3, "0a")})
    begin = commit.starting({"a/t": "earliest", "b/t": "latest", "c/t": "table"}, reached)
    assert begin == {"a/t": {"g": 3, "p": "0a"}, "b/t": "latest", "c/t": "earliest"}


def test_each_checkpoint_is_an_application_of_its_own():
    assert commit.application_id("one") != commit.application_id("two")


def test_a_number_the_table_knows_is_no_proof_that_the_rows_are_there():
    """A table that was restored keeps the numbers of batches that are gone: positions are compared."""
    restored = TableState(batch=5, reached=ending("", "0a"))
    assert isinstance(decide(restored, ending("0a", "0f"), 5), Append)
    with pytest.raises(errors.Stop, match=errors.TABLE_BEHIND):
        decide(restored, ending("0c", "0f"), 5)
    assert decide(TableState(batch=5, reached=ending("", "0a"), is_cut=True), ending("0c", "0f"), 5) == AlreadyIn()


def test_a_table_without_the_topic_is_behind_once_the_checkpoint_has_gone_on():
    """Deleted or not mounted; a topic that is new to the checkpoint may begin anywhere."""
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_BEHIND: .*a/t up to nothing"):
        commit.decide(TableState(), application="q", batch=7, end=ending("0a", "0f"), before=ending("", "0a"))
    other = ending("", "0a", topic="b/t")
    new = commit.decide(TableState(), application="q", batch=7, end=ending("0a", "0f"), before=other)
    assert isinstance(new, Append)
    assert isinstance(decide(TableState(), ending("0a", "0f"), 0), Append)


@pytest.mark.parametrize(
    ("held", "is_behind"),
    [
        (ending("", "0f"), False),
        (ending("", "1f"), False),
        (ending("", "0a"), True),
        (Offsets(), True),
        (Offsets(topics={"a/t": TopicOffset.at(0, "0a")}), True),
        (Offsets(topics={"a/t": TopicOffset.at(2, "01")}), False),
    ],
)
def test_a_checkpoint_goes_on_only_with_a_table_that_holds_its_last_batch(held, is_behind):
    if is_behind:
        with pytest.raises(errors.Stop, match=errors.TABLE_BEHIND):
            commit.check_goes_on(TableState(reached=held), ending("0a", "0f"))
    commit.check_goes_on(TableState(reached=held, is_cut=True), ending("0a", "0f"))
    if not is_behind:
        commit.check_goes_on(TableState(reached=held), ending("0a", "0f"))


def batch(version: int) -> dict[str, Any]:
    metadata = {"reached": Offsets().to_dict(), "batch": version}
    return {"version": version, "timestamp": version * 1000, "operation": "WRITE", "fairlead": metadata}


def by(number: int, operation: str, **parameters: Any) -> dict[str, Any]:
    known = {"operation": operation, "operationParameters": parameters}
    return {"version": number, "timestamp": number * 1000, **known}


def newest(*entries: dict[str, Any]) -> Any:
    found = commit.newest(sorted(entries, key=lambda entry: -entry["version"]))
    return "replaced" if found.is_replaced else None if found.info is None else found.info.batch


HISTORY = [batch(version) for version in range(6)]


def test_what_changes_no_row_of_ours_is_passed_over():
    others = [
        by(6, "OPTIMIZE"), by(7, "DELETE", predicate="a"), by(8, "SET TBLPROPERTIES"), by(9, "VACUUM END"),
        by(10, "WRITE", mode="Append"), by(11, "WRITE", mode="Overwrite", predicate="_date = '2026-11-22'"),
    ]  # fmt: skip
    assert newest(*HISTORY, *others) == 5
    assert newest(*others) is None


@pytest.mark.parametrize(
    "target",
    [
        {"version": "3"},
        {"version": 3},
        {"version": None, "datetime": "3999"},
        {"timestamp": "1970-01-01T00:00:03.5Z", "version": None},
        {"timestamp": "1970-01-01 00:00:03"},
    ],
)
def test_a_restore_takes_back_what_came_after_its_version(target):
    assert newest(*HISTORY, by(6, "RESTORE", **target)) == 3
    assert newest(*HISTORY, by(6, "RESTORE", **target), batch(7)) == 7


def test_a_restore_of_a_restore_brings_back():
    assert newest(*HISTORY, by(6, "RESTORE", version="1"), by(7, "RESTORE", version="5")) == 5
    assert newest(*HISTORY, by(6, "RESTORE", version="1"), by(7, "OPTIMIZE"), by(8, "RESTORE", version="6")) == 1


@pytest.mark.parametrize(
    "entry",
    [
        by(6, "WRITE", mode="Overwrite"),
        by(6, "CREATE OR REPLACE TABLE AS SELECT"),
        by(6, "CLONE", source="t"),
        by(6, "RESTORE", timestamp="yesterday"),
    ],
)
def test_content_that_others_put_there_says_nothing_of_ours(entry):
    assert newest(*HISTORY, entry) == "replaced"
    assert newest(*HISTORY, entry, batch(7)) == 7


def test_no_history_is_no_answer():
    assert commit.newest([]) == NewestCounting()
