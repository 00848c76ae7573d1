"""Which signing requests are taken, and that every wrong one is refused by name."""

import ipaddress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.support.joining import pki

from fairlead_hub.identity import csr
from fairlead_wire.identity import node_names

NAMES = node_names.of("shop-17")
P256 = ec.generate_private_key(ec.SECP256R1())
RIGHT = (
    x509.DNSName("shop-17"),
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
    x509.UniformResourceIdentifier("spiffe://fairlead/node/shop-17"),
)
WRONG = (
    x509.DNSName("shop-18"),
    x509.DNSName("*.shop"),
    x509.DNSName("SHOP-17"),
    x509.DNSName("shop-17."),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
    x509.IPAddress(ipaddress.ip_network("127.0.0.0/8")),
    x509.UniformResourceIdentifier("spiffe://fairlead/node/shop-18"),
    x509.UniformResourceIdentifier("spiffe://other/node/shop-17"),
    x509.RFC822Name("shop-17@example.org"),
    x509.RegisteredID(x509.ObjectIdentifier("1.2.3")),
    x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop-17")])),
)
USAGE = dict.fromkeys(
    ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
     "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"], False
)  # fmt: skip


def _code(der: bytes, **options: bool) -> str:
    with pytest.raises(csr.CsrRefused) as caught:
        csr.check(der, NAMES, **options)
    return caught.value.code


@pytest.mark.parametrize(
    "key",
    [
        P256,
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 3072),
    ],
    ids=["P-256", "P-384", "Ed25519", "RSA 3072"],
)
def test_keys_that_are_strong_enough(key: Any):
    """One key has one hash, whatever else the request says."""
    bare, named = (csr.check(pki.signing_request(key, name=name), NAMES) for name in ("", "shop-17"))
    assert bare.key_sha256 == named.key_sha256 == csr.key_sha256(bare.public_key)
    assert csr.check(pki.signing_request(P256), NAMES).key_sha256 != csr.key_sha256(b"")


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP224R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ec.generate_private_key(ec.SECP256K1()),
        rsa.generate_private_key(65537, 2048),
        ed448.Ed448PrivateKey.generate(),
    ],
    ids=["P-224", "P-521", "secp256k1", "RSA 2048", "Ed448"],
)
def test_weak_and_unusual_keys_are_refused(key: Any):
    """The reason names those that are taken."""
    with pytest.raises(csr.CsrRefused, match="use P-256") as caught:
        csr.check(pki.signing_request(key), NAMES)
    assert caught.value.code == "csr_key"


@given(
    names=st.lists(st.sampled_from(RIGHT + WRONG), unique_by=repr, max_size=6),
    subject=st.sampled_from(["", "shop-17", "shop-18"]),
)
def test_names_are_absent_or_the_nodes(names: list[x509.GeneralName], subject: str):
    """In any mixture: one wrong name spoils the request."""
    der = pki.signing_request(P256, name=subject, alternatives=names)
    if subject == "shop-18" or any(name in WRONG for name in names):
        assert _code(der) == "csr_name"
    else:
        assert csr.check(der, NAMES).key_sha256


def test_other_attributes_of_a_subject_are_names_too():
    """An organization is how Kubernetes names groups."""
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")
    twice = x509.NameAttribute(NameOID.COMMON_NAME, "admin")
    for wrong in (organization, twice):
        assert _code(pki.signing_request(P256, name="shop-17", attributes=[wrong])) == "csr_name"


def test_a_signer_that_takes_names_from_requests_needs_the_nodes():
    """As common name or DNS name."""
    assert _code(pki.signing_request(P256), has_names=True) == "csr_name"
    assert _code(pki.signing_request(P256, alternatives=RIGHT[1:2]), has_names=True) == "csr_name"
    for der in (pki.signing_request(P256, name="shop-17"), pki.signing_request(P256, alternatives=RIGHT[:1])):
        assert csr.check(der, NAMES, has_names=True).key_sha256


@pytest.mark.parametrize(
    "extension",
    [
        x509.BasicConstraints(ca=True, path_length=None),
        x509.KeyUsage(**{**USAGE, "key_cert_sign": True}),
        x509.KeyUsage(**{**USAGE, "crl_sign": True}),
    ],
    ids=["basic constraints", "certificates", "revocation lists"],
)
def test_no_node_becomes_an_authority(extension: x509.ExtensionType):
    """By whichever way it asks."""
    assert _code(pki.signing_request(P256, extensions=[(extension, True)])) == "csr_ca"


def test_what_a_node_needs_may_be_asked_for():
    """As openssl and cert-manager's own tools write it."""
    wanted = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.KeyUsage(**{**USAGE, "digital_signature": True}), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(P256.public_key()), False),
    ]
    assert csr.check(pki.signing_request(P256, extensions=wanted), NAMES).key_sha256


def test_other_extensions_are_refused():
    """A signer that copies them would put them into the certificate."""
    constraints = x509.NameConstraints([x509.DNSName("shop")], None)
    assert _code(pki.signing_request(P256, extensions=[(constraints, True)])) == "csr_malformed"


def test_a_request_proves_that_its_key_is_there():
    """Another's public key, or a weak hash, is none."""
    der = pki.signing_request(P256, name="shop-17")
    assert _code(der[:-1] + bytes((der[-1] ^ 1,))) == "csr_signature"
    weak = pki.signing_request(P256, algorithm=hashes.SHA224())
    assert _code(weak) == "csr_signature"


def test_what_is_too_large_is_not_parsed():
    """Bounded before anything is read."""
    assert _code(b"\x30" * (csr.DER_BYTES_MAX + 1)) == "csr_malformed"


@given(noise=st.binary(max_size=200))
def test_noise_is_refused_and_raises_nothing_else(noise: bytes):
    """Whatever a peer sends."""
    assert _code(noise) == "csr_malformed"


@given(place=st.integers(0, 2**16), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_a_damaged_request_is_taken_or_refused_by_name(place: int, byte: int, cut: int):
    """Never another error; and what is taken has the key that signed it."""
    der = bytearray(pki.signing_request(P256, name="shop-17", alternatives=RIGHT))
    der[place % len(der)] = byte
    try:
        found = csr.check(bytes(der[: len(der) - cut % 3]), NAMES)
    except csr.CsrRefused as error:
        assert error.code.startswith("csr_")
    else:
        assert found.key_sha256 == csr.check(pki.signing_request(P256), NAMES).key_sha256
