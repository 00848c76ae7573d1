"""Which certificate signed which."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from fairlead_wire.identity.authority_bundle import is_issued


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
