"""Stores: sound, damaged, too new, full."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec

from fairlead_cli.doctor.device import store
from fairlead_cli.doctor.device.store import MIB, Key, StoreFile, judge_key, judge_store
from fairlead_edge.io.encryption import keyring
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles

GOOD = StoreFile(
    what="outbox", path="outbox.db", size_bytes=MIB, limit_bytes=100 * MIB, version=3, known_version=3, integrity="ok"
)


def levels(store: StoreFile | None) -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in judge_store(store, "outbox")]


def test_sound_and_absent() -> None:
    assert levels(GOOD) == levels(None) == [("store.outbox", "ok")]
    assert (
        "as far as the check got"
        in next(iter(judge_store(msgspec.structs.replace(GOOD, integrity=""), "outbox"))).message
    )


def test_what_is_wrong_is_named() -> None:
    for changes, level in (
        ({"integrity": "row 3 missing from index"}, "problem"),
        ({"error": "file is not a database"}, "problem"),
        ({"version": 4}, "problem"),
    ):
        [found] = judge_store(msgspec.structs.replace(GOOD, **changes), "outbox")
        assert found.level == level and found.remedy


def test_traces_of_damage_and_a_full_store() -> None:
    changed = msgspec.structs.replace(GOOD, unfinished=True, damaged_copy="outbox.db.damaged", size_bytes=99 * MIB)
    assert [level for _, level in levels(changed)] == ["ok", "warning", "warning", "warning"]


# ---- stores on a real disk ----


def made(path: Path) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA user_version = 2; CREATE TABLE t (a)").fetchall()
    connection.execute("INSERT INTO t VALUES (randomblob(200000))").fetchall()
    connection.close()
    return path


def test_a_sound_store_is_left_as_it_was(tmp_path: Path) -> None:
    """No log, no shared memory: files of another user would lock the agent out."""
    path = made(tmp_path / "objects.db")
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.version, found.integrity, found.error) == (2, "ok", "")
    assert [each.name for each in tmp_path.iterdir()] == ["objects.db"]


def test_a_store_in_use(tmp_path: Path) -> None:
    path = made(tmp_path / "objects.db")
    writer = apsw.Connection(str(path))
    writer.execute("PRAGMA user_version = 3").fetchall()
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=True)
    writer.execute("INSERT INTO t VALUES (1)").fetchall()
    writer.close()
    assert found is not None and (found.version, found.integrity) == (3, "ok")


def test_a_store_the_disk_changed(tmp_path: Path) -> None:
    path = made(tmp_path / "objects.db")
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 3] = b"\xff" * 8192
    path.write_bytes(content)
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.error or found.integrity != "ok")
    path.write_bytes(b"nothing of the kind" * 300)
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and "not a database" in found.error
    nothing = store.read_store(tmp_path / "none.db", "objects", limit_bytes=1, known_version=1, in_use=False)
    assert nothing is None


def test_an_encrypted_store_says_its_version_and_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    connection = SealedFiles(DataKey("0a1b2c3d", bytes(range(32))), path.name).connect(path)
    connection.execute("PRAGMA user_version = 2; CREATE TABLE t (a)").fetchall()
    connection.close()
    found = store.read_store(path, "objects", limit_bytes=10**9, known_version=2, in_use=False)
    assert found is not None and (found.version, found.encrypted, found.error) == (2, True, "")
    assert [each.name for each in tmp_path.iterdir()] == ["objects.db"]


# ---- what is said of the key of the stores ----


def said(key: Key | None) -> list[tuple[str, str]]:
    return [(each.level, each.message) for each in judge_key(key, "/keys/edge")]


def test_a_key_none_and_one_that_does_not_fit() -> None:
    assert said(None) == [("ok", "the stores are not encrypted; to encrypt them, set [store] encryption_key")]
    assert said(Key(fingerprint="0a1b")) == [("ok", "the key in /keys/edge is usable; its fingerprint is 0a1b")]
    assert said(Key(error="no such file")) == [("problem", "no such file")]


def test_a_key_that_others_can_take() -> None:
    levels = [level for level, _ in said(Key(fingerprint="0a", readable_by_others=True, on_the_same_disk=True))]
    assert levels == ["ok", "warning", "warning"]


# ---- the key as the agent would read it, tried on real data keys ----


RIGHT, WRONG = bytes(range(32)), bytes(range(132, 164))


def test_the_right_key_another_one_and_none(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "key"
    data.mkdir()
    path.write_bytes(RIGHT)
    path.chmod(0o600)
    keyring.write(data, (keyring.new_key(),), [RIGHT])
    before = {each.name: each.read_bytes() for each in data.iterdir()}
    found = store.read_key(str(path), data, {})
    assert found.fingerprint == keyring.fingerprint(RIGHT) and not found.error
    assert not found.readable_by_others and not found.on_the_same_disk
    path.write_bytes(WRONG)
    assert keyring.fingerprint(RIGHT) in store.read_key(str(path), data, {}).error
    assert "No such file" in store.read_key(str(tmp_path / "gone"), data, {}).error
    assert "LoadCredential" in store.read_key("credential:edge.key", data, {}).error
    assert {each.name: each.read_bytes() for each in data.iterdir()} == before


def test_a_key_file_that_others_can_take(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(RIGHT)
    path.chmod(0o644)
    found = store.read_key(str(path), tmp_path, {})
    assert found.readable_by_others and found.on_the_same_disk
    credential = store.read_key("credential:key", tmp_path, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert not credential.readable_by_others and not credential.on_the_same_disk
