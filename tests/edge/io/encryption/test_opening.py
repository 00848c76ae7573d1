"""Before the stores are opened: settings and what lies on disk must fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import opening
from fairlead_edge.io.encryption.opening import EncryptionOptions, OpenedStores, prepare
from fairlead_edge.io.file_access import PLAIN


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    return str(path)


def test_without_a_key_nothing_is_encrypted(tmp_path: Path, key: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert prepare(data, EncryptionOptions(None), {}) == OpenedStores()
    assert prepare(data, EncryptionOptions(key, extent="none"), {}) == OpenedStores()
    assert list(data.iterdir()) == []


def test_the_extent_is_secrets_unless_more_is_wanted(tmp_path: Path, key: str) -> None:
    opened = prepare(tmp_path, EncryptionOptions(key), {})
    assert opened.extent == "secrets" and opened.messages is PLAIN and opened.objects is not PLAIN
    assert prepare(tmp_path, EncryptionOptions(key, extent="all"), {}).messages is not PLAIN
    assert opening.is_encrypted(tmp_path)
    with pytest.raises(StoreUnusable, match="encryption_key is not set"):
        prepare(tmp_path, EncryptionOptions(None), {})


def test_no_room_is_a_sentence(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead_edge.io.encryption import keyring

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keyring, "write", full)
    with pytest.raises(StoreUnusable, match="No space left on device; free some room"):
        prepare(tmp_path, EncryptionOptions(key), {})


@pytest.mark.process
def test_cryptography_is_not_imported_where_nothing_is_encrypted(tmp_path: Path) -> None:
    """It would cost every agent 13 MiB."""
    program = (
        "import sys; from pathlib import Path; import fairlead_edge.app\n"
        "from fairlead_edge.io.encryption import opening\n"
        f"opening.prepare(Path({str(tmp_path)!r}), opening.EncryptionOptions(None), {{}})\n"
        "sys.exit(int('cryptography' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
