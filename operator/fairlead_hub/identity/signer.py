"""Certificates of nodes: their profile, the chain they belong to, and the port that signs them.

    now, days, revoked before, authority's own end ─times─▶ not before … not after
    CertificateTemplate ─sign─▶ SignedCertificate, or SignerUnavailable with the remedy

A template determines the whole certificate, including its serial number.  Given the same template again, a signer
returns the same bytes (``files``) or the same certificate as before (``cert-manager``); both are in ``io.identity``.

A certificate becomes valid a few minutes before now, for clocks that are slow, but never earlier than the moment at
which the node's identity was revoked: that moment alone separates older certificates from newer ones.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead_wire.errors import Temporary
from fairlead_wire.identity.authority_bundle import is_issued
from fairlead_wire.identity.node_names import NodeNames


class CheckedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a request: its key, whose possession it has proved."""

    der: bytes
    public_key: bytes
    """SubjectPublicKeyInfo, DER."""
    key_sha256: str
    """Of ``public_key``, lower-case hexadecimal: one key, one value."""


class AuthorityBundle(msgspec.Struct, frozen=True, kw_only=True):
    """Our authorities (PEM) and their digest, and what vouches for them: our certificate and its chain (PEM)."""

    digest: str
    authorities: bytes
    certificates: str


class CertificateTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """One certificate that is to be made.  Times are UTC, whole seconds."""

    names: NodeNames
    request: CheckedRequest
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    revoked_before: datetime.datetime | None = None
    """A certificate that begins earlier is refused already; None: none is."""


class SignedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """``chain``: PEM, the node's certificate first, then authorities below the root."""

    node: str
    chain: bytes
    serial: str
    """Hexadecimal, lower-case; with ``cert-manager`` the issuer's own."""
    issuer: str
    """The authority's name, for people."""
    not_before: datetime.datetime
    not_after: datetime.datetime


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs now.  ``fingerprint``: SHA-256 of its certificate, hexadecimal.  Both empty: the issuer alone knows."""

    name: str
    fingerprint: str = ""
    not_before: datetime.datetime = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    not_after: datetime.datetime = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class SignerUnavailable(Temporary):
    """Not signed now; the text names the remedy."""


class Signer(Protocol):
    """One way of getting certificates signed."""

    @property
    def takes_names(self) -> bool:
        """Does it take names from the request?  Then the request must ask for the node's."""

    @property
    def authority(self) -> Authority:
        """Who signs now.  A certificate's times stay within its own."""

    async def sign(self, template: CertificateTemplate) -> SignedCertificate:
        """Raises ``SignerUnavailable``."""


def serial_text(serial: int) -> str:
    """As it is written down and compared."""
    return f"{serial:x}"


SKEW: Final = datetime.timedelta(minutes=5)
LIFE_MIN: Final = datetime.timedelta(minutes=1)
"""Less than this left of the authority: nothing is signed any more."""
SERIAL_BITS: Final = 159
"""Positive in 20 bytes (RFC 5280, section 4.1.2.2)."""

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def validity(
    now: datetime.datetime,
    *,
    days: float,
    authority: Authority,
    revoked_before: datetime.datetime | None = None,
) -> tuple[datetime.datetime, datetime.datetime]:
    """Not before, not after; whole seconds.  Raises ``SignerUnavailable`` when the authority itself is at its end."""
    now = now.replace(microsecond=0)
    if now + LIFE_MIN > authority.not_after:
        ended = f"the authority {authority.name} ends on {authority.not_after:%Y-%m-%d %H:%M UTC}"
        raise SignerUnavailable(f"{ended}: put a new one first in [identity] ca_cert")
    earliest = [now - SKEW, authority.not_before]
    if revoked_before is not None:
        earliest.append(revoked_before)
    return max(earliest), min(now + datetime.timedelta(days=days), authority.not_after)


def certificate(template: CertificateTemplate, issuer: x509.Certificate, key: SigningKey) -> x509.Certificate:
    """Signed; deterministic, so that the same template makes the same bytes."""
    names, public = template.names, serialization.load_der_public_key(template.request.public_key)
    assert isinstance(public, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey)
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, names.common_name)] if names.common_name else []
    alternatives: list[x509.GeneralName] = [x509.DNSName(each) for each in names.dns]
    alternatives += [x509.IPAddress(ipaddress.ip_address(each)) for each in names.addresses]
    alternatives.append(x509.UniformResourceIdentifier(names.uri))
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    builder = (
        x509.CertificateBuilder(issuer.subject, x509.Name(attributes), public)
        .serial_number(template.serial)
        .not_valid_before(template.not_before)
        .not_valid_after(template.not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purposes, critical=False)
        # Without a subject these are the only names, and have to be understood (RFC 5280, section 4.2.1.6).
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=not attributes)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_issuer_key(issuer), critical=False)
    )
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return builder.sign(key, _hash(key), ecdsa_deterministic=True)
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def _issuer_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public = issuer.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _hash(key: ec.EllipticCurvePrivateKey) -> hashes.SHA256 | hashes.SHA384:
    return hashes.SHA256() if key.key_size <= 256 else hashes.SHA384()



def leads_to(certificates: Sequence[x509.Certificate], trusted: Sequence[bytes]) -> bool:
    """Is one of them among these authorities (DER), or signed by one?"""
    authorities = [x509.load_der_x509_certificate(each) for each in trusted]
    return any(
        each.public_bytes(serialization.Encoding.DER) in trusted or any(is_issued(each, above) for above in authorities)
        for each in certificates
    )


def name(certificate: x509.Certificate) -> str:
    """Its common name, for people; else its whole subject."""
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    return certificate.subject.rfc4514_string()
