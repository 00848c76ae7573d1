"""Stores: sound, damaged, too new, full."""

from __future__ import annotations

import msgspec

from fairlead_cli.doctor.device.store import MIB, StoreFile, judge_store

GOOD = StoreFile(
    what="outbox", path="outbox.db", size_bytes=MIB, limit_bytes=100 * MIB, version=3, known_version=3, integrity="ok"
)


def levels(store: StoreFile | None) -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in judge_store(store, "outbox")]


def test_sound_and_absent() -> None:
    """Both are well."""
    assert levels(GOOD) == levels(None) == [("store.outbox", "ok")]
    assert (
        "as far as was looked" in next(iter(judge_store(msgspec.structs.replace(GOOD, integrity=""), "outbox"))).message
    )


def test_what_is_wrong_is_named() -> None:
    """With its remedy."""
    for changes, level in (
        ({"integrity": "row 3 missing from index"}, "problem"),
        ({"error": "file is not a database"}, "problem"),
        ({"version": 4}, "problem"),
    ):
        [found] = judge_store(msgspec.structs.replace(GOOD, **changes), "outbox")
        assert found.level == level and found.remedy


def test_traces_of_damage_and_a_full_store() -> None:
    """Warnings beside the state."""
    changed = msgspec.structs.replace(GOOD, unfinished=True, damaged_copy="outbox.db.damaged", size_bytes=99 * MIB)
    assert [level for _, level in levels(changed)] == ["ok", "warning", "warning", "warning"]
