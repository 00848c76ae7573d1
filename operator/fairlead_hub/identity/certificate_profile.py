"""The certificate of a node: its names and its usages; and finding which certificate signed which."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead_hub.identity.signer import CertificateTemplate
from fairlead_wire.identity.authority_bundle import is_issued

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def certificate(template: CertificateTemplate, issuer: x509.Certificate, key: SigningKey) -> x509.Certificate:
    """Sign a certificate.  Deterministic: the same template gives the same bytes."""
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
        # Without a subject these are the only names, so the extension must be critical (RFC 5280, section 4.2.1.6).
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
    """Whether one of them is among these authorities (DER), or signed by one."""
    authorities = [x509.load_der_x509_certificate(each) for each in trusted]
    return any(
        each.public_bytes(serialization.Encoding.DER) in trusted or any(is_issued(each, above) for above in authorities)
        for each in certificates
    )


def name(certificate: x509.Certificate) -> str:
    """The common name, for people, or the whole subject if there is none."""
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    return certificate.subject.rfc4514_string()
