"""What changed since the opening: bounded, and honest about what it no longer knows."""

from __future__ import annotations

import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import HistoryExpired, VersionedChange, WatchHistory


def change(version: int, *, size: int = 1) -> VersionedChange[HeldObject]:
    document = config_map("a")
    document["data"]["k"] = "x" * size
    return VersionedChange(version=version, previous=None, current=held(document, local_version=version))


def versions(log: WatchHistory[HeldObject], since: int) -> list[int]:
    return [each.version for each in log.since(since)]


def test_changes_since_a_version_come_oldest_first() -> None:
    log: WatchHistory[HeldObject] = WatchHistory(10)
    for version in (11, 12, 13, 14):
        log.append(change(version))
    assert versions(log, 12) == [13, 14]
    assert versions(log, 10) == [11, 12, 13, 14]
    assert versions(log, 14) == []
    assert log.version == 14


@pytest.mark.parametrize("version", [9, 15])
def test_what_it_does_not_know_it_says(version: int) -> None:
    """Before the opening and after the newest there is nothing to tell, which is not the same as no change."""
    log: WatchHistory[HeldObject] = WatchHistory(10)
    for each in (11, 12):
        log.append(change(each))
    with pytest.raises(HistoryExpired, match="10 to 12"):
        log.since(version)


def test_the_oldest_are_dropped_when_there_are_too_many() -> None:
    log: WatchHistory[HeldObject] = WatchHistory(0, changes_max=3)
    for version in range(1, 11):
        log.append(change(version))
    assert versions(log, 7) == [8, 9, 10]
    with pytest.raises(HistoryExpired):
        log.since(6)


def test_the_oldest_are_dropped_when_they_are_too_large() -> None:
    """Contents kept alive are bounded in bytes; the newest change is always kept."""
    log: WatchHistory[HeldObject] = WatchHistory(0, bytes_max=1000)
    for version in (1, 2, 3):
        log.append(change(version, size=5000))
    assert (log.floor, versions(log, 2)) == (2, [3])


def test_listeners_hear_of_each_change_until_they_leave() -> None:
    log: WatchHistory[HeldObject] = WatchHistory(0)
    heard: list[int] = []
    forget = log.listen(lambda each: heard.append(each.version))
    log.append(change(1))
    forget()
    log.append(change(2))
    assert heard == [1]


def test_the_subject_of_a_deletion_is_what_was_deleted() -> None:
    last = held(config_map("gone"))
    assert VersionedChange(version=1, previous=last, current=None).subject is last


def test_what_was_lost_expires_for_all_watchers() -> None:
    """A list shows what is; a late change from before the loss reaches listeners, and is not kept."""
    log: WatchHistory[HeldObject] = WatchHistory(10)
    log.append(change(11))
    heard: list[int] = []
    log.listen(lambda each: heard.append(each.version))
    log.lose(13)
    for version in (10, 11):
        with pytest.raises(HistoryExpired):
            log.since(version)
    log.append(change(12))
    assert (heard, log.version, versions(log, 13)) == ([12], 13, [])
    log.append(change(14))
    assert versions(log, 13) == [14]


def test_a_slow_reader_gets_changes_in_parts() -> None:
    """So that it keeps alive no more of them than it sends at a time."""
    log: WatchHistory[HeldObject] = WatchHistory(10)
    for version in (11, 12, 13):
        log.append(change(version, size=1000))
    assert [each.version for each in log.since(10, bytes_max=1500)] == [11, 12]
    assert [each.version for each in log.since(12, bytes_max=1)] == [13]
    assert log.since(13, bytes_max=1) == []
