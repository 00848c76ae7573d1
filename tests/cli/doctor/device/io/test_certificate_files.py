"""Certificates and keys as they lie on a disk: good ones, another's key, an encrypted one, nothing."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from tests.support.joining.pki import Authority

from fairlead_cli.doctor.device import certificates


def test_a_pair_of_one_authority(tmp_path: Path) -> None:
    """With both authorities of a bundle."""
    authority, other = Authority(tmp_path / "a", "first"), Authority(tmp_path / "b", "second")
    pair, foreign = authority.issue("edge-1"), other.issue("edge-1")
    bundle = tmp_path / "both.crt"
    bundle.write_bytes(authority.certificate.read_bytes() + other.certificate.read_bytes())
    found = certificates.read_files(bundle, pair.certificate, pair.key)
    assert found.own is not None and found.own.name == "edge-1" and not found.mismatch
    assert [each.name for each in found.authorities] == ["first", "second"]
    assert "is not the key of" in certificates.read_files(bundle, pair.certificate, foreign.key).mismatch


def test_what_cannot_be_used(tmp_path: Path) -> None:
    """Said in words; OpenSSL never asks for a password at the terminal."""
    pair = Authority(tmp_path / "a").issue("edge-1")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    found = certificates.read_files(tmp_path / "none", pair.certificate, locked)
    assert not found.authorities and found.authorities_error == "No such file or directory"
    assert "an agent has no password for it" in found.mismatch
