"""What the certificate of a node says: from when until when, which names, what for.

    now, days, revoked before, authority's own end ─times─▶ not before … not after
    Template, authority's certificate and key ──────sign──▶ certificate, the same bytes for the same template

Not before: a few minutes ago, for clocks that are slow, but never earlier than the node's identity was revoked: by that
moment alone older certificates are distinguished from newer ones.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead_hub.identity.signer import Authority, CertificateTemplate, SignerUnavailable

SKEW: Final = datetime.timedelta(minutes=5)
LIFE_MIN: Final = datetime.timedelta(minutes=1)
"""Less than this left of the authority: nothing is signed any more."""
SERIAL_BITS: Final = 159
"""Positive in 20 bytes (RFC 5280, section 4.1.2.2)."""

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def times(
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
