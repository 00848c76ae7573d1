"""The port's values."""

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.support.joining import pki

from fairlead_hub.identity import certificate_profile, csr, signer
from fairlead_hub.identity.signer import Authority, CertificateTemplate, SignerUnavailable
from fairlead_wire.identity import node_names
from fairlead_wire.io import tls


def test_a_serial_number_has_one_text():
    """As openssl prints it, but lower-case and without a leading zero."""
    assert signer.serial_text(0x0ABC) == "abc" and signer.serial_text(2**158) == "4" + "0" * 39


NOW = datetime.datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
ROOT = Authority(
    name="edge", not_before=NOW - datetime.timedelta(days=10), not_after=NOW + datetime.timedelta(days=1000)
)


def _times(**changes: object) -> tuple[datetime.datetime, datetime.datetime]:
    asked = {"days": 90.0, "authority": ROOT, **changes}
    return signer.validity(NOW, **asked)  # type: ignore[arg-type]


def test_valid_from_a_little_earlier_for_as_long_as_set():
    """Whole seconds, as X.509 has them."""
    second = NOW.replace(microsecond=0)
    assert _times() == (second - datetime.timedelta(minutes=5), second + datetime.timedelta(days=90))


def test_never_valid_before_the_identity_was_revoked():
    """Else the new certificate would count as an old one."""
    revoked = NOW.replace(microsecond=0) - datetime.timedelta(seconds=3)
    assert _times(revoked_before=revoked)[0] == revoked
    assert _times(revoked_before=revoked - datetime.timedelta(days=1))[0] != revoked


def test_within_the_life_of_the_authority():
    """A certificate that outlives it would fail all at once; one that cannot live is not made."""
    young = Authority(name="edge", not_before=NOW - datetime.timedelta(seconds=10), not_after=ROOT.not_after)
    assert _times(authority=young)[0] == young.not_before
    old = Authority(name="edge", not_after=NOW + datetime.timedelta(days=3))
    assert _times(authority=old)[1] == old.not_after
    gone = Authority(name="edge", not_after=NOW)
    with pytest.raises(SignerUnavailable, match="ca_cert"):
        _times(authority=gone)


def _made(tmp_path: Path, node: str = "shop-17", key: object = None) -> tuple[x509.Certificate, x509.Certificate]:
    root = pki.Authority(tmp_path / "ca", private_key=key)
    issuer = x509.load_pem_x509_certificate(root.certificate.read_bytes())
    signing = load_pem_private_key(root.key.read_bytes(), None)
    names = node_names.of(node)
    before, after = _times()
    request = csr.check(pki.signing_request(KEY), names)
    template = CertificateTemplate(names=names, request=request, serial=2**158 + 5, not_before=before, not_after=after)
    made, again = (certificate_profile.certificate(template, issuer, signing) for _ in range(2))  # type: ignore[arg-type]
    assert made.public_bytes(Encoding.DER) == again.public_bytes(Encoding.DER)
    made.verify_directly_issued_by(issuer)
    return made, issuer


@pytest.mark.parametrize(
    "key",
    [
        None,
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 3072),
    ],
    ids=["P-256", "P-384", "Ed25519", "RSA"],
)
def test_the_same_template_makes_the_same_bytes(tmp_path: Path, key: object):
    """With every kind of authority: a lost answer can be given again."""
    made, _ = _made(tmp_path, key=key)
    assert made.serial_number == 2**158 + 5


def test_names_purposes_and_no_authority(tmp_path: Path):
    """Client of the hub, server for modules; found by its issuer's key."""
    made, issuer = _made(tmp_path)
    extensions = made.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["shop-17", "localhost"]
    assert [str(each) for each in names.value.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert names.value.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://fairlead/node/shop-17"]
    assert not names.critical and made.subject.rfc4514_string() == "CN=shop-17"
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and not constraints.value.ca
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(purposes) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    above = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == above
    assert (made.not_valid_before_utc, made.not_valid_after_utc) == _times()


def test_a_long_name_is_read_from_the_first_dns_name(tmp_path: Path):
    """As the link reads it."""
    long = "a" * 100 + ".example"
    made, _ = _made(tmp_path, long)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical and not list(made.subject)
    shown = {"subject": (), "subjectAltName": [("DNS", each) for each in names.value.get_values_for_type(x509.DNSName)]}
    assert tls.peer_name(shown) == long


def test_a_chain_leads_to_an_authority_that_is_trusted(tmp_path: Path):
    """Itself, or one that signed any of it; a namesake with another key did not."""
    root, namesake = (pki.Authority(tmp_path / name, "root") for name in ("root", "namesake"))
    low = pki.Authority(tmp_path / "low", "low", signer=root)
    [top, other, below] = [
        x509.load_pem_x509_certificate(each.certificate.read_bytes()) for each in (root, namesake, low)
    ]
    der = [each.public_bytes(Encoding.DER) for each in (top, other)]
    assert certificate_profile.leads_to([below], der[:1]) and certificate_profile.leads_to([top], der[:1])
    assert not certificate_profile.leads_to([below], der[1:]) and not certificate_profile.leads_to([below], [])
    assert certificate_profile.name(below) == "low"
    unnamed = x509.load_pem_x509_certificate(low.issue("x").certificate.read_bytes())
    assert certificate_profile.name(unnamed) == "x"
