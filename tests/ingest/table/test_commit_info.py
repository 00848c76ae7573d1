"""What a commit records: its stored form, the line of versions, and ages of rows."""

from __future__ import annotations

import json

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import (
    BATCHES_MAX,
    CONTRACTS_MAX,
    NEWEST_PROPERTY,
    BatchCounts,
    CommitInfo,
    ContractUse,
    Lineage,
    LogEntry,
    TableTotals,
    TableVersion,
)

# As they lie in tables; spaces are not stored.
REACHED = '{"svc": "5f0c", "topics": {"a/t": {"f": "0f", "fg": 3, "g": 3, "p": "0f", "r": 0}}, "v": 1}'
BATCH = (
    f'{{"reached": {REACHED}, "application": "fairlead:q", "batch": 12, "totals": {{"rows": 90, "dead_letters": 2,'
    ' "left_out": 3, "expired_unread": 4, "expired_starts": 1}, "rows": 9, "dead_letters": 1, "bytes": 512,'
    ' "left_out": 3, "expired_unread": 2, "expired_starts": 1, "ages": [1, 8]}'
)
GAP = (
    '{"topic": "a/t", "reason": "recreated", "from_generation": 2, "from_position": "0a", "to_generation": 3,'
    ' "to_position": "", "rows": null}'
)
WITH_GAP = BATCH.removesuffix("}") + f', "gaps": [{GAP}]}}'
REPORTED = GAP.removesuffix("}") + (
    ', "node": "edge-1", "queue": "iothub_Pri0", "from_sequence": 5, "to_sequence": 9, "count": 4}'
)
WITH_REPORT = BATCH.removesuffix("}") + f', "gaps": [{GAP}, {REPORTED}]}}'
SIDE_TABLE = (
    f'{{"reached": {REACHED}, "application": "fairlead:q", "batch": 12, "totals": {{"rows": 0, "dead_letters": 0,'
    ' "left_out": 0, "expired_unread": 0, "expired_starts": 0}}'
)


@pytest.mark.parametrize("stored", [BATCH, WITH_GAP, WITH_REPORT, SIDE_TABLE])
def test_what_is_stored_is_read_and_written_as_it_was(stored):
    assert json.dumps(commit_info.parse_commit_info(json.loads(stored)).to_dict()) == stored


def test_stored_names_stand_for_whole_ones():
    info = commit_info.parse_commit_info(json.loads(WITH_GAP))
    assert info.reached == Offsets(service="5f0c", topics={"a/t": TopicOffset.at(3, "0f")})
    assert (info.application, info.batch, info.totals.filtered, info.counts.filtered) == ("fairlead:q", 12, 3, 3)
    [gap] = info.counts.gaps
    assert gap == GapRow(
        topic="a/t", reason="recreated", from_generation=2, from_position="0a",
        to_generation=3, to_position="", rows=None,
    )  # fmt: skip


def test_older_versions_left_less():
    """Before events there were no gaps, before the report no ages, before totals none."""
    info = commit_info.parse_commit_info({"reached": json.loads(REACHED), "application": "q", "batch": 1, "rows": 7})
    assert (info.counts.rows, info.counts.ages, info.totals) == (7, [], TableTotals())


@pytest.mark.parametrize("metadata", [{}, {"fairlead": "text"}, {"fairlead": {"rows": 1}}])
def test_commits_of_others_say_nothing(metadata):
    assert commit_info.read_commit_info(metadata) is None


@pytest.mark.parametrize("more", [{"reached": 5}, {"batch": "x"}, {"totals": 7}, {"rows": "many"}, {"ages": [None]}])
def test_what_is_broken_is_refused_by_code(more):
    with pytest.raises(errors.Stop, match="FAIRLEAD_"):
        commit_info.parse_commit_info({**json.loads(BATCH), **more})


def test_totals_add_up():
    totals = TableTotals(rows=1, filtered=2).plus(BatchCounts(rows=4, bytes=99, filtered=1, ages=[1]))
    assert totals == TableTotals(rows=5, filtered=3)


def test_an_entry_is_a_batch_of_one_application():
    """Others' commits, other jobs' batches and commits without a number are not asked for."""
    mine = LogEntry(version=3, timestamp_ms=7, info=commit_info.parse_commit_info(json.loads(BATCH)))
    found = mine.batch("fairlead:q")
    assert found is not None and (found.version, found.timestamp_ms, found.info.batch) == (3, 7, 12)
    assert mine.batch() == found
    assert mine.batch("fairlead:other") is None
    assert LogEntry(version=3, timestamp_ms=7).batch() is None
    assert LogEntry(version=3, timestamp_ms=7, info=CommitInfo(reached=Offsets())).batch() is None


def test_since_when_a_contract_judges_stays_known():
    """A batch by the same version adds nothing; the oldest of many are forgotten; a table without has none stored."""

    def used(version: int, batch: int) -> BatchCounts:
        return BatchCounts(
            rows=1, contract=ContractUse(name="t", version=version, batch=batch, at="2026-11-23T00:00:00Z")
        )

    totals = (
        TableTotals().plus(BatchCounts(rows=1)).plus(used(1, 1)).plus(used(1, 2)).plus(BatchCounts()).plus(used(2, 4))
    )
    assert totals.rows == 4
    assert [(each.version, each.batch) for each in totals.contracts] == [(1, 1), (2, 4)]
    for version in range(3, CONTRACTS_MAX + 10):
        totals = totals.plus(used(version, version))
    assert [each.version for each in totals.contracts][-CONTRACTS_MAX:] == list(range(10, CONTRACTS_MAX + 10))
    assert len(totals.contracts) == CONTRACTS_MAX
    info = CommitInfo(reached=Offsets(service="s"), batch=4, totals=totals, counts=used(2, 4))
    assert commit_info.parse_commit_info(json.loads(json.dumps(info.to_dict()))) == info


INFO = CommitInfo(
    reached=Offsets(service="s", topics={"a/t": TopicOffset(generation=1, position="0f")}),
    application="app",
    batch=3,
    sequence=7,
)
OURS = commit_info.following(None, snapshot=50, number=5, info=INFO, batches={"app": 3})


def test_what_is_left_is_read_again():
    assert commit_info.parse_newest_commit({NEWEST_PROPERTY: OURS.encode()}) == OURS
    assert commit_info.parse_newest_commit({}) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"v":2}', '{"v":1,"snapshot":"x","number":1,"batches":{},"info":{}}']
)
def test_what_is_broken_stops_the_job(text):
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        commit_info.parse_newest_commit({NEWEST_PROPERTY: text})


@pytest.mark.parametrize(
    ("versions", "lineage"),
    [
        ([TableVersion(60, 50, 6), TableVersion(50, 40, 5), TableVersion(40, None, 4)], Lineage.CURRENT),
        ([TableVersion(40, 30, 4)], Lineage.TAKEN_BACK),
        ([TableVersion(70, 40, 7), TableVersion(40, 30, 4)], Lineage.TAKEN_BACK),
        ([TableVersion(70, 60, 7), TableVersion(60, None, 6)], Lineage.CUT),
        ([], Lineage.CUT),
    ],
)
def test_it_counts_while_the_current_version_was_made_from_it(versions, lineage):
    """Rolled back to before it, also where others have written since; unknown where the history is cut."""
    assert OURS.line(versions) is lineage


def test_the_newest_applications_are_remembered():
    """One for each checkpoint; a table that outlives a thousand of them does not carry them all."""
    found = None
    for number in range(BATCHES_MAX + 5):
        found = commit_info.following(found, snapshot=1, number=1, info=INFO, batches={f"app{number}": number})
    assert found is not None and len(found.batches) == BATCHES_MAX + 1
    assert list(found.batches)[-1] == f"app{BATCHES_MAX + 4}" and "app0" not in found.batches


def test_counts_of_tasks_add_up():
    assert commit_info.add_ages([[1, 2], [], [0, 5]])[:3] == [1, 7, 0]


def test_a_quantile_is_the_bound_below_which_that_part_lies():
    counts = [9] + [0] * (len(commit_info.AGE_BUCKETS) - 1) + [1]
    assert commit_info.age_quantile(counts, 0.5) == commit_info.AGE_BUCKETS[0]
    assert commit_info.age_quantile(counts, 0.95) == float("inf")
    assert commit_info.age_quantile([0, 0], 0.5) is None
