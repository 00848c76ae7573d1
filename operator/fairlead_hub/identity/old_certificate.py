"""Verifies that a certificate was valid until it expired, and that the device has its key.

    PEM: leaf, chain ─▶ at the leaf's last moment: signed by an authority the link trusts now? ─▶ OldCertificate
    signature by its key over ``message.late_proof`` ─▶ verified, or ProofRefused

This is the proof of a device that was away for too long.  All input comes from an untrusted device, so sizes are
limited before anything is parsed.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from fairlead_hub.identity.signer import serial_text
from fairlead_wire.errors import Permanent

PEM_BYTES_MAX: Final = 32 * 1024
CERTIFICATES_MAX: Final = 6
SIGNATURE_BYTES_MAX: Final = 1024
SPIFFE: Final = "spiffe://"
_SECOND: Final = datetime.timedelta(seconds=1)


class ProofRefused(Permanent):
    """``code`` is ``identity``: the device has not proved that it is this node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, code="identity")


class OldCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that was valid until ``not_after``.  Unix times."""

    name: str
    serial: str
    not_before: float
    not_after: float
    key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey


def verify(pem: str, roots: Sequence[bytes]) -> OldCertificate:
    """Verify the chain.  ``roots``: DER of the authorities of nodes.  Raises ``ProofRefused``."""
    leaf, *chain = _read(pem)
    try:
        key = leaf.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ProofRefused("the certificate's key cannot be read") from None
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise ProofRefused("the certificate's key is of an unsupported kind")
    _verify_chain(leaf, chain, roots)
    name = _name(leaf)
    if not name:
        raise ProofRefused("the certificate contains no name")
    _require_role(leaf, name)
    return OldCertificate(
        name=name,
        serial=serial_text(leaf.serial_number),
        not_before=leaf.not_valid_before_utc.timestamp(),
        not_after=leaf.not_valid_after_utc.timestamp(),
        key=key,
    )


def verify_signature(old: OldCertificate, signature: bytes, content: bytes) -> None:
    """Check that ``content`` was signed by its key.  Raises ``ProofRefused``."""
    try:
        if len(signature) > SIGNATURE_BYTES_MAX:
            raise InvalidSignature
        match old.key:
            case ec.EllipticCurvePublicKey():
                old.key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
            case ed25519.Ed25519PublicKey():
                old.key.verify(signature, content)
            case rsa.RSAPublicKey():
                scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=hashes.SHA256.digest_size)
                old.key.verify(signature, content, scheme, hashes.SHA256())
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        raise ProofRefused("the certificate's key did not sign this conversation") from None


def _read(pem: str) -> list[x509.Certificate]:
    try:
        content = pem.encode("ascii")
        if len(content) > PEM_BYTES_MAX or content.count(b"-----BEGIN") > CERTIFICATES_MAX:
            raise ValueError("too large")
        return x509.load_pem_x509_certificates(content)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise ProofRefused(f"no certificates in PEM, at most {CERTIFICATES_MAX}, can be read") from None


def _verify_chain(leaf: x509.Certificate, chain: list[x509.Certificate], roots: Sequence[bytes]) -> None:
    try:
        trusted = verification.Store([x509.load_der_x509_certificate(each) for each in roots])
        at = leaf.not_valid_after_utc - _SECOND
        # The library calls this API unstable: it is used here and nowhere else.
        verifier = verification.PolicyBuilder().store(trusted).time(at).build_client_verifier()
        verifier.verify(leaf, chain)
    except (verification.VerificationError, ValueError, UnsupportedAlgorithm, OverflowError):
        reason = "the certificate was never valid here: no authority that this hub trusts for nodes signed it"
        raise ProofRefused(f"{reason} (join again with a token)") from None


def _name(leaf: x509.Certificate) -> str:
    """Like ``io.tls.peer_name``: the common name, or the first DNS name if there is none."""
    for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ""
    return next(iter(names.get_values_for_type(x509.DNSName)), "")


def _require_role(leaf: x509.Certificate, name: str) -> None:
    """Like the link: if one authority signs for all roles, only the role distinguishes a node from a program."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith(SPIFFE)]
    if any(uri.removeprefix(SPIFFE).partition("/")[2] != f"node/{name}" for uri in uris) or len(uris) > 1:
        raise ProofRefused(f"the certificate's role is not that of node {name}")
