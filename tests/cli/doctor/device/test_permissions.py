"""Who may read the key, and whose the files are."""

from __future__ import annotations

import pytest

from fairlead_cli.doctor.device.agent import File, judge_folder, judge_readable, judge_secret


def file(mode: int, owner: int = 7, what: str = "tls_key") -> File:
    return File(what=what, path=f"/data/{what}", mode=mode, owner=owner)


@pytest.mark.parametrize(("mode", "level"), [(0o600, "ok"), (0o640, "warning"), (0o644, "problem"), (0o602, "problem")])
def test_a_key_is_for_its_owner(mode: int, level: str) -> None:
    """A group may be meant; all others never are."""
    found = judge_secret(file(0o100000 | mode))
    assert found.level == level and f"{mode:04o}" in found.message


def test_files_of_another_user() -> None:
    """What stays behind when an agent was once run as root: the next start cannot open them."""
    inside = [file(0o600, 7, "objects.db"), file(0o600, 0, "outbox.db-shm")]
    [found] = judge_folder(file(0o700, 7, "data"), inside)
    assert found.level == "problem" and "outbox.db-shm to user 0 (folder: 7)" in found.message
    assert found.remedy.startswith("chown -R 7 ")


def test_a_folder_others_may_write() -> None:
    """A warning, and whose the files are all the same."""
    assert [each.level for each in judge_folder(file(0o777), [file(0o600)])] == ["warning", "ok"]


def test_files_that_the_settings_name_are_for_the_agents_user() -> None:
    """Each that it cannot read, with the command that mends it."""
    named = {"tls_key": "/k", "modules.tokens_file": "/m"}
    [found] = judge_readable(named, {"/m": "Permission denied"}, 999)
    assert found.level == "problem" and "modules.tokens_file /m cannot be read by user 999" in found.message
    assert "chown 999 /m" in found.remedy
    assert [each.level for each in judge_readable(named, {}, 999)] == ["ok"]
    assert not list(judge_readable({}, {}, 999))
