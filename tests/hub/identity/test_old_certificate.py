"""The proof of a device whose certificate ended while it was away."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from tests.support.joining.pki import Authority, Pair

from fairlead_hub.identity import old_certificate
from fairlead_hub.identity.old_certificate import OldCertificate, ProofRefused

DAY = datetime.timedelta(days=1)
CONTENT = b"fairlead-late/1" + bytes(100)


def der(authority: Authority) -> bytes:
    return x509.load_pem_x509_certificate(authority.certificate.read_bytes()).public_bytes(Encoding.DER)


def ended(authority: Authority, name: str = "shop-1", days: int = 30) -> Pair:
    """It was valid for ninety days."""
    begins = datetime.datetime.now(datetime.UTC) - (90 + days) * DAY
    return authority.issue(name, hosts=(name,), begins=begins, valid=-days * DAY)


@pytest.fixture
def edges(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "edges", "edges", age=400 * DAY)


def test_one_that_was_valid_at_its_end_is_read(edges: Authority) -> None:
    found = old_certificate.verify(ended(edges).certificate.read_text(), [der(edges)])
    assert found.name == "shop-1" and found.not_after - found.not_before == pytest.approx(90 * 86_400, abs=2)


def test_its_authority_may_have_ended_since(tmp_path: Path) -> None:
    """The hub trusts it still, and at the certificate's end it was valid."""
    old = Authority(tmp_path / "old", "old", age=400 * DAY, valid=-2 * DAY)
    assert old_certificate.verify(ended(old).certificate.read_text(), [der(old)]).name == "shop-1"


def test_a_chain_below_the_root_is_followed(tmp_path: Path) -> None:
    root = Authority(tmp_path / "root", "root", age=400 * DAY)
    middle = Authority(tmp_path / "middle", "middle", signer=root, age=400 * DAY)
    leaf = ended(middle).certificate.read_text()
    assert old_certificate.verify(leaf + middle.certificate.read_text(), [der(root)]).name == "shop-1"
    with pytest.raises(ProofRefused):
        old_certificate.verify(leaf, [der(root)])


@pytest.mark.parametrize(
    ("uri", "is_taken"),
    [
        ("spiffe://site/node/shop-1", True),
        ("urn:device:5", True),
        ("spiffe://site/node/shop-2", False),
        ("spiffe://site/hub/shop-1", False),
        ("spiffe://site/shop-1", False),
    ],
)
def test_only_the_role_of_this_node_counts(edges: Authority, uri: str, is_taken: bool) -> None:
    """As in a session: a program that is named like a node gets no node's certificate by its own."""
    begins = datetime.datetime.now(datetime.UTC) - 120 * DAY
    leaf = edges.issue("shop-1", hosts=("shop-1",), begins=begins, valid=-30 * DAY, uri=uri).certificate.read_text()
    if is_taken:
        assert old_certificate.verify(leaf, [der(edges)]).name == "shop-1"
    else:
        with pytest.raises(ProofRefused, match="role"):
            old_certificate.verify(leaf, [der(edges)])


def test_others_are_refused(edges: Authority, tmp_path: Path) -> None:
    """Of an authority that is not trusted, or that was not valid at that time; and what is no certificate."""
    stranger = Authority(tmp_path / "stranger", "edges", age=400 * DAY)
    young = Authority(tmp_path / "young", "young", age=DAY)
    for authority, roots in ((stranger, [der(edges)]), (young, [der(young)]), (edges, [])):
        with pytest.raises(ProofRefused, match="was not valid at its end"):
            old_certificate.verify(ended(authority).certificate.read_text(), roots)
    many = ended(edges).certificate.read_text() * (old_certificate.CERTIFICATES_MAX + 1)
    for text in ("", "-----BEGIN CERTIFICATE-----", "\u00e9", many, "x" * (old_certificate.PEM_BYTES_MAX + 1)):
        with pytest.raises(ProofRefused):
            old_certificate.verify(text, [der(edges)])


def sign(key: Any) -> bytes:
    match key:
        case ec.EllipticCurvePrivateKey():
            return key.sign(CONTENT, ec.ECDSA(hashes.SHA256()))
        case ed25519.Ed25519PrivateKey():
            return key.sign(CONTENT)
    scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=hashes.SHA256.digest_size)
    signed: bytes = key.sign(CONTENT, scheme, hashes.SHA256())
    return signed


@pytest.mark.parametrize("kind", ["p256", "p384", "ed25519", "rsa"])
def test_the_signature_is_checked_by_the_kind_of_key(kind: str) -> None:
    made: dict[str, Any] = {
        "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=3072),
    }
    key = made[kind]()
    old = OldCertificate(name="shop-1", serial="a", not_before=0.0, not_after=1.0, key=key.public_key())
    signature = sign(key)
    old_certificate.verify_signature(old, signature, CONTENT)
    for wrong in (b"", signature[:-1], b"x" * 2000):
        with pytest.raises(ProofRefused):
            old_certificate.verify_signature(old, wrong, CONTENT)
    with pytest.raises(ProofRefused):
        old_certificate.verify_signature(old, signature, CONTENT + b"x")


def test_a_real_key_of_a_real_pair(edges: Authority) -> None:
    pair = ended(edges)
    old = old_certificate.verify(pair.certificate.read_text(), [der(edges)])
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    old_certificate.verify_signature(old, sign(key), CONTENT)
