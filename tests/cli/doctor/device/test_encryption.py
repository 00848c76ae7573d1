"""What is said of the key of the stores."""

from __future__ import annotations

from fairlead_cli.doctor.device.store import Key, judge_key


def said(key: Key | None) -> list[tuple[str, str]]:
    return [(each.level, each.message) for each in judge_key(key, "/keys/edge")]


def test_a_key_none_and_one_that_does_not_fit() -> None:
    assert said(None) == [("ok", "the stores are not encrypted; the key of [store] encryption_key would encrypt them")]
    assert said(Key(fingerprint="0a1b")) == [("ok", "the key in /keys/edge is usable; its fingerprint is 0a1b")]
    assert said(Key(error="no such file")) == [("problem", "no such file")]


def test_a_key_that_others_can_take() -> None:
    levels = [level for level, _ in said(Key(fingerprint="0a", readable_by_others=True, on_the_same_disk=True))]
    assert levels == ["ok", "warning", "warning"]
