"""The key as the agent would read it, tried on real data keys."""

from __future__ import annotations

from pathlib import Path

from fairlead_cli.doctor.device import store
from fairlead_edge.io.encryption import keyring

RIGHT, WRONG = bytes(range(32)), bytes(range(132, 164))


def test_the_right_key_another_one_and_none(tmp_path: Path) -> None:
    """Nothing is changed by looking."""
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


def test_a_key_that_others_can_take(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(RIGHT)
    path.chmod(0o644)
    found = store.read_key(str(path), tmp_path, {})
    assert found.readable_by_others and found.on_the_same_disk
    credential = store.read_key("credential:key", tmp_path, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert not credential.readable_by_others and not credential.on_the_same_disk
