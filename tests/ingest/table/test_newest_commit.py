"""What our newest commit left, and whether it is still what the table's current version is made of."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import BATCHES_MAX, NEWEST_PROPERTY, CommitInfo, Lineage, TableVersion

INFO = CommitInfo(
    reached=Offsets(service="s", topics={"a/t": TopicOffset(generation=1, position="0f")}),
    application="app",
    batch=3,
    sequence=7,
)
OURS = commit_info.following(None, snapshot=50, number=5, info=INFO, batches={"app": 3})


def test_what_is_left_is_read_again() -> None:
    assert commit_info.parse_newest_commit({NEWEST_PROPERTY: OURS.encode()}) == OURS
    assert commit_info.parse_newest_commit({}) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"v":2}', '{"v":1,"snapshot":"x","number":1,"batches":{},"info":{}}']
)
def test_what_is_broken_stops_the_job(text: str) -> None:
    """Going on would repeat or miss rows."""
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        commit_info.parse_newest_commit({NEWEST_PROPERTY: text})


def test_it_counts_while_the_current_version_was_made_from_it() -> None:
    """Commits of others, a compaction say, change nothing."""
    assert OURS.line([TableVersion(60, 50, 6), TableVersion(50, 40, 5), TableVersion(40, None, 4)]) is Lineage.CURRENT


def test_it_was_taken_back_where_the_line_passes_it_by() -> None:
    """Rolled back to before it, also where others wrote since, and where nothing is left at all."""
    assert OURS.line([TableVersion(40, 30, 4)]) is Lineage.TAKEN_BACK
    assert OURS.line([TableVersion(70, 40, 7), TableVersion(40, 30, 4)]) is Lineage.TAKEN_BACK


def test_nothing_is_known_where_the_line_is_cut() -> None:
    """Others have let versions expire, ours among them."""
    assert OURS.line([TableVersion(70, 60, 7), TableVersion(60, None, 6)]) is Lineage.CUT
    assert OURS.line([]) is Lineage.CUT


def test_the_newest_applications_are_remembered() -> None:
    """One for each checkpoint; a table that outlives a thousand of them does not carry them all."""
    found = None
    for number in range(BATCHES_MAX + 5):
        found = commit_info.following(found, snapshot=1, number=1, info=INFO, batches={f"app{number}": number})
    assert found is not None and len(found.batches) == BATCHES_MAX + 1
    assert list(found.batches)[-1] == f"app{BATCHES_MAX + 4}" and "app0" not in found.batches
