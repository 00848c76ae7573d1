"""Data keys wrapped by the operator's key: opened by the right one only, and not lost with one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import keyring

FIRST, SECOND = bytes(range(32)), bytes(range(32, 64))


def test_what_was_written_is_read_by_each_key_it_was_wrapped_with(tmp_path: Path) -> None:
    keys = (keyring.new_key(), keyring.new_key())
    keyring.write(tmp_path, keys, [FIRST, SECOND])
    for operator in (FIRST, SECOND):
        found = keyring.read(tmp_path, [operator])
        assert found is not None and found.keys == keys and found.current == keys[0]
        assert found.wrapped_by == {keyring.fingerprint(FIRST), keyring.fingerprint(SECOND)}
    content = (tmp_path / keyring.FILE_NAME).read_bytes()
    assert not any(secret in content for secret in (FIRST, SECOND, *(key.secret for key in keys)))
    assert (tmp_path / keyring.FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert repr(keys[0]) == f"DataKey({keys[0].name})"


def test_another_key_is_refused_by_its_fingerprint(tmp_path: Path) -> None:
    keyring.write(tmp_path, (keyring.new_key(),), [FIRST])
    with pytest.raises(StoreUnusable, match=f"{keyring.fingerprint(FIRST)}.*{keyring.fingerprint(SECOND)}"):
        keyring.read(tmp_path, [SECOND])


@pytest.mark.parametrize("name", [keyring.FILE_NAME, keyring.COPY_NAME])
def test_one_of_the_two_files_is_enough(tmp_path: Path, name: str) -> None:
    keys = (keyring.new_key(),)
    keyring.write(tmp_path, keys, [FIRST])
    content = (tmp_path / name).read_bytes()
    for spoilt in (
        b"",
        b"x" + content[1:],
        content[:-1],
        content[: len(content) // 2],
        content.replace(b'"by"', b'"bz"'),
    ):
        (tmp_path / name).write_bytes(spoilt)
        found = keyring.read(tmp_path, [FIRST])
        assert found is not None and found.keys == keys
    (tmp_path / name).unlink()
    assert keyring.read(tmp_path, [FIRST]) is not None


def test_both_damaged_or_none_at_all(tmp_path: Path) -> None:
    assert keyring.read(tmp_path, [FIRST]) is None
    keyring.write(tmp_path, (keyring.new_key(),), [FIRST])
    for name in (keyring.FILE_NAME, keyring.COPY_NAME):
        (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(StoreUnusable, match=r"damaged.*nothing was changed"):
        keyring.read(tmp_path, [FIRST])
    keyring.remove(tmp_path)
    assert not keyring.exists(tmp_path)
