"""The operator's key: its forms, where it may lie, and what is said of one that is none."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from fairlead_edge.io.encryption import key_file
from fairlead_edge.io.encryption.key_file import BadKey

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
    assert key_file.read("encryption_key", str(path), {}) == KEY


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
def test_what_is_no_key_is_refused_with_the_remedy_and_not_shown(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(BadKey, match=text) as refused:
        key_file.read("encryption_key", str(path), {})
    assert "openssl rand" in str(refused.value) and "hunter2" not in str(refused.value)


def test_a_key_that_may_not_be_read_is_not_to_be_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the one that the stores are encrypted with."""

    def denied(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(
        BadKey, match=r"Permission denied; give it to the user that runs the agent: chown USER"
    ) as found:
        key_file.read("encryption_key", str(tmp_path / "key"), {})
    assert "openssl" not in str(found.value)


def test_a_credential_lies_where_systemd_says(tmp_path: Path) -> None:
    (tmp_path / "edge.key").write_bytes(KEY)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert key_file.read("encryption_key", "credential:edge.key", environ) == KEY
    with pytest.raises(BadKey, match=r"LoadCredential=edge\.key"):
        key_file.read("encryption_key", "credential:edge.key", {})
    with pytest.raises(BadKey, match="No such file"):
        key_file.read("encryption_key", "credential:other", environ)


def test_a_key_that_others_can_read_or_that_lies_beside_the_stores_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path = data / "key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    key_file.read("encryption_key", str(path), {}, data_dir=data)
    said = {record.getMessage() for record in caplog.records}
    assert said == {"encryption_key_readable", "encryption_key_beside_store"}
    caplog.clear()
    os.chmod(path, 0o600)
    key_file.read("encryption_key", str(path), {}, data_dir=tmp_path / "elsewhere")
    assert not caplog.records
