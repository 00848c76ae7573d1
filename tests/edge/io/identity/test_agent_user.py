"""Who will own the files, and who holds the folder meanwhile."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

import pytest

from fairlead_edge.io.identity import agent_user
from fairlead_edge.io.identity.agent_user import CannotJoin
from fairlead_edge.io.identity.identity_files import Owner


def test_root_gives_the_files_to_who_owns_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or to the user whose home it will be, as the package says, or to the user named."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    someone = next(each for each in pwd.getpwall() if each.pw_uid != 0)
    monkeypatch.setattr(pwd, "getpwall", lambda: [someone])
    assert agent_user.owner_of(Path(someone.pw_dir) / "not-there", "") is None
    theirs = Owner(user=someone.pw_uid, group=someone.pw_gid)
    assert agent_user.owner_of(tmp_path, someone.pw_name) == theirs
    home = (*someone[:5], str(tmp_path / "home"), *someone[6:])
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.struct_passwd(home)])
    assert agent_user.owner_of(tmp_path / "home", "") == theirs


def test_without_root_files_are_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user cannot be named, and one that is not there can never be."""
    with pytest.raises(CannotJoin, match="there is no user no-such-user"):
        agent_user.owner_of(tmp_path, "no-such-user")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert agent_user.owner_of(tmp_path, "") is None
    with pytest.raises(CannotJoin, match="only root can give files to root"):
        agent_user.owner_of(tmp_path, "root")
    assert agent_user.name_of(None) == ""
    assert agent_user.name_of(Owner(user=0, group=0)) == "root"
    assert agent_user.name_of(Owner(user=4_000_000, group=0)) == "4000000"


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    """A second one learns which process has it; afterwards it is free."""
    folder = tmp_path / "data"
    held = contextlib.ExitStack()
    held.enter_context(agent_user.locked(folder, None))
    with pytest.raises(CannotJoin, match="in use by another edge agent"), agent_user.locked(folder, None):
        pass
    held.close()
    with agent_user.locked(folder, None):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(CannotJoin, match="Nothing was sent"), agent_user.locked(tmp_path / "file", None):
        pass
