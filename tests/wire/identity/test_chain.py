"""Which certificate signed which: at once, by one between, by a root that another one signed as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.support.joining.pki import Authority

from fairlead_wire.identity import chain


def test_a_certificate_leads_to_its_authority(tmp_path: Path) -> None:
    old, other = Authority(tmp_path / "old", "root"), Authority(tmp_path / "other", "root")
    roots = [x509.load_pem_x509_certificate(each.certificate.read_bytes()) for each in (old, other)]
    own = old.issue("hub").certificate.read_bytes()
    assert chain.is_issued(x509.load_pem_x509_certificate(own), roots[0])
    assert not chain.is_issued(x509.load_pem_x509_certificate(own), roots[1])
    assert chain.reaches(own, other.certificate.read_bytes() + old.certificate.read_bytes())
    assert not chain.reaches(own, other.certificate.read_bytes()), "the name alone is not enough"
    assert chain.reaches(old.certificate.read_bytes(), old.certificate.read_bytes())


def test_what_stands_between_leads_on(tmp_path: Path) -> None:
    """Also a new root that the old one signed, and never round in a ring."""
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    key = serialization.load_pem_private_key(new.key.read_bytes(), None)
    crossed = Authority(tmp_path / "crossed", "new", signer=old, private_key=key)
    back = Authority(tmp_path / "back", "old", signer=new)
    own, between = new.issue("hub").certificate.read_bytes(), crossed.certificate.read_bytes()
    for believed in (old, new):
        assert chain.reaches(own + between, believed.certificate.read_bytes())
    assert not chain.reaches(own, old.certificate.read_bytes())
    third = Authority(tmp_path / "third", "third").certificate.read_bytes()
    assert not chain.reaches(own + between + back.certificate.read_bytes() + between, third)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    good = Authority(tmp_path).certificate.read_bytes()
    for shown, believed in ((b"", good), (good, b""), (b"\xff", good)):
        with pytest.raises(ValueError):
            chain.reaches(shown, believed)
