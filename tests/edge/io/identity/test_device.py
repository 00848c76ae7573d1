"""The settings file is written whole or not at all, with its mode; what a variable says counts more."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from fairlead_edge.io.identity import device, join
from fairlead_edge.io.identity.device import CannotConfigure, CannotJoin, DeviceSettings
from fairlead_edge.io.identity.identity_files import Owner
from fairlead_wire.identity.join_token import JoinToken

NOBODY = 65534


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that another user reaches, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


def wanted(folder: Path) -> dict[str, str]:
    files = dict.fromkeys(("tls_ca", "tls_cert", "tls_key"), "/etc/node.pem")
    return {"node": "shop-17", "hub_url": "wss://hub:10000", "data_dir": str(folder / "data"), **files}


def test_a_new_file_and_a_changed_one(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "edge.toml"
    settings = DeviceSettings(path, {})
    assert settings.write(wanted(tmp_path), owner=None, dry=True) and not path.exists()
    assert settings.write(wanted(tmp_path), owner=None)
    assert tomllib.loads(path.read_text()) == wanted(tmp_path) and path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    path.write_text(path.read_text() + "# a note\n[store]\nmax_bytes = 100000\n")
    changed = {**wanted(tmp_path), "hub_url": "wss://other:10000"}
    assert DeviceSettings(path, {}).write(changed, owner=None)
    assert "# a note" in path.read_text() and path.stat().st_mode & 0o777 == 0o604
    assert os.listdir(path.parent) == ["edge.toml"]
    assert not DeviceSettings(path, {}).write(changed, owner=None)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "edge.toml"
    real.write_text("# real\n")
    link.symlink_to(real)
    DeviceSettings(link, {}).write(wanted(tmp_path), owner=None)
    assert link.is_symlink() and tomllib.loads(real.read_text())["node"] == "shop-17"


def test_the_name_of_the_packages_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    path.write_text('node = "NODE"\nhub_url = "wss://HUB:PORT"\n')
    assert DeviceSettings(path, {}).node == ""
    assert DeviceSettings(path, {"FAIRLEAD_EDGE_NODE": "shop-17"}).node == "shop-17"


def test_where_the_data_is(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    assert DeviceSettings(path, {}).data_dir == tmp_path / "edge-data"
    assert DeviceSettings(path, {"FAIRLEAD_EDGE_DATA_DIR": "/data"}).data_dir == Path("/data")
    path.write_text('data_dir = "/var/data"')
    assert DeviceSettings(path, {}).data_dir == Path("/var/data")
    assert DeviceSettings(Path("/etc/fairlead/no-such.toml"), {}).data_dir == Path("/var/lib/fairlead-edge")


@pytest.mark.parametrize("content", [b"\xff", b"node = ", b" " * 2_000_000])
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edge.toml"
    path.write_bytes(content)
    with pytest.raises(CannotConfigure, match=r"edge\.toml"):
        DeviceSettings(path, {})
    with pytest.raises(CannotConfigure, match="Is a directory"):
        DeviceSettings(tmp_path, {})


# ---- who will own the files, and who holds the folder meanwhile -----------------------------------


def test_root_gives_the_files_to_who_owns_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    someone = next(each for each in pwd.getpwall() if each.pw_uid != 0)
    monkeypatch.setattr(pwd, "getpwall", lambda: [someone])
    assert device.owner_of(Path(someone.pw_dir) / "not-there", "") is None
    theirs = Owner(user=someone.pw_uid, group=someone.pw_gid)
    assert device.owner_of(tmp_path, someone.pw_name) == theirs
    home = (*someone[:5], str(tmp_path / "home"), *someone[6:])
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.struct_passwd(home)])
    assert device.owner_of(tmp_path / "home", "") == theirs


def test_without_root_files_are_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotJoin, match="there is no user no-such-user"):
        device.owner_of(tmp_path, "no-such-user")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert device.owner_of(tmp_path, "") is None
    with pytest.raises(CannotJoin, match="only root can give files to root"):
        device.owner_of(tmp_path, "root")
    assert device.name_of(None) == ""
    assert device.name_of(Owner(user=0, group=0)) == "root"
    assert device.name_of(Owner(user=4_000_000, group=0)) == "4000000"


def test_where_a_value_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    path.write_text('node = "shop-17"\n')
    assert DeviceSettings(path, {}).source("node") == str(path)
    settings = DeviceSettings(path, {"FAIRLEAD_EDGE_NODE": "shop-7"})
    assert settings.source("node") == "the variable FAIRLEAD_EDGE_NODE"
    wanted = join.JoinOptions(url="wss://hub:1", token=JoinToken(id="a", secret="b", pins=()), config=path)
    remedy = "The name shop-7 comes from the variable FAIRLEAD_EDGE_NODE: correct it, or give --node"
    assert join.remedy_of("token_node", wanted, settings) == remedy
    assert join.remedy_of("token_node", structs.replace(wanted, node="shop-1"), settings) == ""
    assert "make a new token" in join.remedy_of("token_used", wanted, settings)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_of_another_user_is_named_with_its_owner_and_one_remedy(open_to_all: Path, is_there: bool) -> None:
    """The folder that exists: the one that does not cannot be given away."""
    data = open_to_all / "data"
    if is_there:
        data.mkdir(mode=0o755)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(CannotJoin) as refused, device.locked(data, None):
            pass
    finally:
        os.seteuid(0)
    place = data if is_there else open_to_all
    remedy = "run it with sudo, or name another settings file with --config. Nothing was sent"
    assert str(refused.value) == f"data_dir {data}: Permission denied: {place} belongs to user root; {remedy}"


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    held = contextlib.ExitStack()
    held.enter_context(device.locked(folder, None))
    with pytest.raises(CannotJoin, match="in use by another edge agent"), device.locked(folder, None):
        pass
    held.close()
    with device.locked(folder, None):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(CannotJoin, match="Nothing was sent"), device.locked(tmp_path / "file", None):
        pass
