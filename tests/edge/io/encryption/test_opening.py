"""Before the stores are opened: settings and what lies on disk must fit."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_edge.errors import StoreUnusable
from fairlead_edge.io.encryption import opening
from fairlead_edge.io.encryption.opening import BadKey, EncryptionOptions, OpenedStores, prepare
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


KEY = bytes(range(100, 132))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(KEY, id="bytes"),
        pytest.param(KEY.hex().encode() + b"\n", id="hex"),
        pytest.param(KEY.hex().upper().encode(), id="upper-hex"),
        pytest.param(base64.b64encode(KEY) + b"\n", id="base64"),
        pytest.param(base64.urlsafe_b64encode(KEY).rstrip(b"="), id="urlsafe"),
    ],
)
def test_each_form_of_a_key(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    assert opening.read_key("encryption_key", str(path), {}) == KEY


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "holds no key of 32 bytes"),
        (b"hunter2-hunter2", "holds no key of 32 bytes"),
        (KEY[:-1], "holds no key"),
        (b"correct-horse-battery-staple-yes", "holds no key"),
        (b"0123456789abcdef" * 2, "holds no key"),
        (KEY.hex().encode()[:-1] + b"g", "holds no key"),
        (b"x" * 100_000, "holds no key"),
        (bytes(32), "are not random"),
        (b"0" * 64, "are not random"),
    ],
)
def test_an_invalid_key_is_refused_with_the_remedy_and_not_shown(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(BadKey, match=text) as refused:
        opening.read_key("encryption_key", str(path), {})
    assert "openssl rand" in str(refused.value) and "hunter2" not in str(refused.value)


def test_a_key_that_may_not_be_read_is_not_to_be_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the one that the stores are encrypted with."""

    def denied(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(
        BadKey, match=r"Permission denied; give it to the user that runs the agent: chown USER"
    ) as found:
        opening.read_key("encryption_key", str(tmp_path / "key"), {})
    assert "openssl" not in str(found.value)


def test_a_credential_lies_where_systemd_says(tmp_path: Path) -> None:
    (tmp_path / "edge.key").write_bytes(KEY)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert opening.read_key("encryption_key", "credential:edge.key", environ) == KEY
    with pytest.raises(BadKey, match=r"LoadCredential=edge\.key"):
        opening.read_key("encryption_key", "credential:edge.key", {})
    with pytest.raises(BadKey, match="No such file"):
        opening.read_key("encryption_key", "credential:other", environ)


def test_a_key_readable_by_others_or_beside_the_stores_causes_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path = data / "key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    opening.read_key("encryption_key", str(path), {}, data_dir=data)
    said = {record.getMessage() for record in caplog.records}
    assert said == {"encryption_key_readable", "encryption_key_beside_store"}
    caplog.clear()
    os.chmod(path, 0o600)
    opening.read_key("encryption_key", str(path), {}, data_dir=tmp_path / "elsewhere")
    assert not caplog.records
