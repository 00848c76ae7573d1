"""Bundles of authorities: the same digest for the same certificates, and no half of a bundle."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from tests.support.joining.pki import Authority

from fairlead_wire.identity import authority_bundle


def test_the_digest_is_of_the_certificates_alone(tmp_path: Path) -> None:
    one, two = (Authority(tmp_path / name, name).certificate.read_bytes() for name in ("one", "two"))
    assert len(authority_bundle.certificates(one + two)) == 2
    assert authority_bundle.digest(one + two) == authority_bundle.digest(
        b"# roots of 2027\n" + two + b"\n\n" + one + two
    )
    assert len({authority_bundle.digest(each) for each in (one, two, one + two)}) == 3


def test_a_bundle_with_one_bad_certificate_is_bad(tmp_path: Path) -> None:
    good = Authority(tmp_path, "one").certificate.read_bytes()
    frame = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----\n"
    wrongs = {
        "holds no certificate": b"",
        "cut off": good + good[:-30],
        "certificate 2 of 2 cannot be read": good + frame % b"AAAA",
        "certificate 1 of 1 cannot be read": frame % b"A",
        "more than 32": good * 33,
        "larger than": good + b"#" * authority_bundle.BYTES_MAX,
    }
    for sentence, content in wrongs.items():
        with pytest.raises(ValueError, match=sentence):
            authority_bundle.digest(content)


# ---- authorities are known by their public keys, and hostile bytes are one sentence ----


def test_each_authority_has_the_pin_of_its_public_key(tmp_path: Path) -> None:
    """In the order of the text; what else stands there is passed over."""
    texts = [Authority(tmp_path / name, name).certificate.read_bytes() for name in ("one", "two")]
    found = authority_bundle.by_pin(b"a note\n" + b"".join(texts))
    assert list(found.values()) == texts
    for pin, text in found.items():
        public = x509.load_pem_x509_certificate(text).public_key()
        spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        assert pin == hashlib.sha256(spki).hexdigest()


@pytest.mark.parametrize("bad", [b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_holds_no_certificates_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match="holds no certificates in PEM"):
        authority_bundle.by_pin(bad)


def test_too_much_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="larger than"):
        authority_bundle.by_pin(b" " * (authority_bundle.PEM_BYTES_MAX + 1))
    text = Authority(tmp_path).certificate.read_bytes()
    with pytest.raises(ValueError, match="more than 32"):
        authority_bundle.by_pin(text * 33)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    """Between the lines that begin and end a certificate stands what an attacker likes."""
    with pytest.raises(ValueError, match="holds no certificates"):
        authority_bundle.by_pin(b"-----BEGIN CERTIFICATE-----\n" + content + b"\n-----END CERTIFICATE-----\n")


# ---- which certificate signed which ----


def test_a_certificate_leads_to_its_authority(tmp_path: Path) -> None:
    old, other = Authority(tmp_path / "old", "root"), Authority(tmp_path / "other", "root")
    roots = [x509.load_pem_x509_certificate(each.certificate.read_bytes()) for each in (old, other)]
    own = old.issue("hub").certificate.read_bytes()
    assert authority_bundle.is_issued(x509.load_pem_x509_certificate(own), roots[0])
    assert not authority_bundle.is_issued(x509.load_pem_x509_certificate(own), roots[1])
    assert authority_bundle.reaches(own, other.certificate.read_bytes() + old.certificate.read_bytes())
    assert not authority_bundle.reaches(own, other.certificate.read_bytes()), "the name alone is not enough"
    assert authority_bundle.reaches(old.certificate.read_bytes(), old.certificate.read_bytes())


def test_what_stands_between_leads_on(tmp_path: Path) -> None:
    """Also a new root that the old one signed, and never round in a ring."""
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    key = serialization.load_pem_private_key(new.key.read_bytes(), None)
    crossed = Authority(tmp_path / "crossed", "new", signer=old, private_key=key)
    back = Authority(tmp_path / "back", "old", signer=new)
    own, between = new.issue("hub").certificate.read_bytes(), crossed.certificate.read_bytes()
    for believed in (old, new):
        assert authority_bundle.reaches(own + between, believed.certificate.read_bytes())
    assert not authority_bundle.reaches(own, old.certificate.read_bytes())
    third = Authority(tmp_path / "third", "third").certificate.read_bytes()
    assert not authority_bundle.reaches(own + between + back.certificate.read_bytes() + between, third)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    good = Authority(tmp_path).certificate.read_bytes()
    for shown, believed in ((b"", good), (good, b""), (b"\xff", good)):
        with pytest.raises(ValueError):
            authority_bundle.reaches(shown, believed)
