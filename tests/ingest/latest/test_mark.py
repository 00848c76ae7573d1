"""The mark in a latest table's commits, and which files a log has added and removed since."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.latest import mark
from fairlead_ingest.latest import mark as marks
from fairlead_ingest.latest.mark import ChangeEntry, Current, FoldAfter, Mark, Rebuild

MARK = Mark(source="s", version=7, definition="d", stamp="cafe", keys=3, deleted=1, buckets=2, sequence=5)


def entry(operation: str, **info: Any) -> ChangeEntry:
    return ChangeEntry(info={"operation": operation, "timestamp": 12, **info})


def test_a_mark_is_found_below_what_changes_no_rows():
    ours = entry("WRITE", **MARK.metadata)
    found = marks.newest([entry("VACUUM END"), entry("OPTIMIZE"), entry("ADD COLUMN"), ours])
    assert found is not None
    assert (found.mark, found.timestamp_ms) == (MARK, 12)


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE", "RESTORE", "WRITE", "", "REPLACE TABLE"])
def test_a_table_that_others_changed_has_none(operation):
    assert marks.newest([entry(operation), entry("WRITE", **MARK.metadata)]) is None


def test_a_mark_that_cannot_be_read_is_none():
    """Of a version that says something else, say; nor is an empty log."""
    assert marks.newest([entry("WRITE", **{marks.METADATA_KEY: {"version": "x"}})]) is None
    assert marks.newest([]) is None


@pytest.mark.parametrize(
    ("mark", "now", "decided"),
    [
        (MARK, {}, FoldAfter(after=7)),
        (MARK, {"stamp": None}, FoldAfter(after=7)),
        (MARK, {"version": 7}, Current()),
        (MARK, {"version": 6, "stamp": None}, "restored from a copy"),
        (MARK, {"version": 7, "stamp": "beef"}, "restored from a copy"),
        (MARK, {"source": "t"}, "replaced"),
        (MARK, {"definition": "e"}, "settings"),
        (None, {}, "did not exist"),
    ],
)
def test_what_is_to_be_done(mark, now, decided):
    found = marks.decide(mark, **{"source": "s", "version": 9, "stamp": "cafe", "definition": "d", **now})
    if isinstance(decided, str):
        assert isinstance(found, Rebuild)
        assert decided in found.reason
    else:
        assert found == decided


DAY = {"_topic": "ns/t", "_date": "2026-11-20"}
OTHER = {"_topic": "ns/t", "_date": "2026-11-21"}


def entry_row_changes(*actions: tuple[str, str, dict[str, str], bool], **more: Any) -> ChangeEntry:
    lines = [{"commitInfo": {"operation": "WRITE"}}]
    lines += [
        {kind: {"path": path, "partitionValues": partition, "dataChange": changed, **more}}  # type: ignore[dict-item]
        for kind, path, partition, changed in actions
    ]
    return mark.parse("\n".join(map(json.dumps, lines)).encode(), "t")


def told(*entries: ChangeEntry) -> tuple[list[str], int]:
    found = mark.outstanding(entries, "t")
    return [file.path for file in found.files], len(found.reduced)


def test_added_files_are_read_by_their_names_on_disk():
    assert told(
        entry_row_changes(("add", "_topic=ns%252Ft/a", DAY, True)), entry_row_changes(("add", "b", OTHER, True))
    ) == (
        ["_topic=ns%2Ft/a", "b"],
        0,
    )


def test_joined_files_count_only_where_something_of_them_had_to_be_read():
    """Compacted before it was folded: the file it became, in its partition, and no other."""
    joined = entry_row_changes(
        ("remove", "a", DAY, False), ("remove", "x", OTHER, False), ("add", "j", DAY, False), ("add", "k", OTHER, False)
    )
    assert told(entry_row_changes(("add", "a", DAY, True)), joined) == (["j"], 0)
    again = entry_row_changes(("remove", "j", DAY, False), ("add", "jj", DAY, False))
    assert told(entry_row_changes(("add", "a", DAY, True)), joined, again) == (["jj"], 0)
    assert told(joined, again) == ([], 0)


def test_rows_that_are_gone_reduce_their_partition_unless_they_came_since():
    deleted = entry_row_changes(("remove", "a", DAY, True), ("remove", "old", OTHER, True), ("add", "a2", DAY, True))
    found = mark.outstanding([entry_row_changes(("add", "a", DAY, True)), deleted], "t")
    assert [file.path for file in found.files] == ["a2"]
    assert found.reduced == {(("_date", "2026-11-21"), ("_topic", "ns/t"))}


def test_files_that_cannot_be_read_whole_are_refused_with_the_remedy():
    with pytest.raises(errors.Stop, match="outside the table"):
        told(entry_row_changes(("add", "s3://b/other/a", DAY, True)))
    with pytest.raises(errors.Stop, match="deletion vector; rewrite"):
        told(entry_row_changes(("add", "a", DAY, True), deletionVector={"storageType": "u"}))


def test_what_is_no_entry_is_refused_by_place():
    with pytest.raises(errors.Stop, match="t: not an entry"):
        mark.parse(b"{", "t")
    assert mark.parse(b'{"domainMetadata": {}}\n\n{"protocol": {}}'.replace(b"\n\n", b"\n"), "t").info == {}
