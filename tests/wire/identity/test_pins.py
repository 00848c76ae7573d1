"""Authorities are known by their public keys, and hostile bytes are one sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from tests.support.joining.pki import Authority

from fairlead_wire.identity import pins


def test_each_authority_has_the_pin_of_its_public_key(tmp_path: Path) -> None:
    """In the order of the text; what else stands there is passed over."""
    texts = [Authority(tmp_path / name, name).certificate.read_bytes() for name in ("one", "two")]
    found = pins.by_pin(b"a note\n" + b"".join(texts))
    assert list(found.values()) == texts
    for pin, text in found.items():
        public = x509.load_pem_x509_certificate(text).public_key()
        spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        assert pin == hashlib.sha256(spki).hexdigest()


@pytest.mark.parametrize("bad", [b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_holds_no_certificates_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match="holds no certificates in PEM"):
        pins.by_pin(bad)


def test_too_much_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    """By its bytes, and by how many there are."""
    with pytest.raises(ValueError, match="larger than"):
        pins.by_pin(b" " * (pins.PEM_BYTES_MAX + 1))
    text = Authority(tmp_path).certificate.read_bytes()
    with pytest.raises(ValueError, match="more than 32"):
        pins.by_pin(text * 33)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    """Between the lines that begin and end a certificate stands what an attacker likes."""
    with pytest.raises(ValueError, match="holds no certificates"):
        pins.by_pin(b"-----BEGIN CERTIFICATE-----\n" + content + b"\n-----END CERTIFICATE-----\n")
