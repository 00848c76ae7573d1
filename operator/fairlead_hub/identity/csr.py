"""Decides whether a certificate signing request may be signed for a node.  The peer may be hostile: nothing is trusted.

    DER ─ size ▸ form ▸ key ▸ signature ▸ names ▸ no authority ─▶ CheckedRequest, or CsrRefused by code

Only the key is taken from a request.  Everything else in it must be what the hub would set anyway: a device that
requests another name gets an error immediately, instead of a certificate that does not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtensionOID, NameOID

from fairlead_hub.identity.signer import CheckedRequest
from fairlead_wire.errors import Permanent
from fairlead_wire.identity.node_names import NodeNames

DER_BYTES_MAX: Final = 8 * 1024
"""A request with an RSA key of 8192 bits and every name of a node is smaller than 4 KiB."""
RSA_BITS_MIN: Final = 3072
RSA_BITS_MAX: Final = 8192
"""Longer keys cost many milliseconds in every handshake, and here in every check."""
RSA_EXPONENT_MAX: Final = 2**32
KEYS: Final = f"P-256, P-384, Ed25519, or RSA of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits"
HASHES: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)

_READ: Final = frozenset(
    {
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    }
)
"""Extensions a request may contain; each is checked or has no effect."""

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What ``cryptography`` raises for bytes that are not a request; three of these are not ``ValueError``."""

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey


class CsrRefused(Permanent):
    """``code`` is one of ``csr_malformed``, ``csr_key``, ``csr_signature``, ``csr_name``, ``csr_ca``."""


def key_sha256(public_key: bytes) -> str:
    """Hash of a SubjectPublicKeyInfo in DER."""
    return hashlib.sha256(public_key).hexdigest()


def check(der: bytes, names: NodeNames, *, has_names: bool = False) -> CheckedRequest:
    """Check a request.  Raises ``CsrRefused``.

    ``has_names``: the signer takes names from the request, so it must contain the node's.
    """
    if len(der) > DER_BYTES_MAX:
        raise CsrRefused(f"the request is {len(der)} bytes long, at most {DER_BYTES_MAX}", code="csr_malformed")
    request = _read(der)
    public = _key(request)
    _check_signature(request)
    _check_names(request, names, has_names=has_names)
    _check_extensions(request.extensions)
    spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return CheckedRequest(der=der, public_key=spki, key_sha256=key_sha256(spki))


def _read(der: bytes) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_der_x509_csr(der)
        # These attributes are parsed on access: everything that can fail does so here.
        _ = request.subject, request.extensions, list(request.attributes)
    except UNREADABLE:
        raise CsrRefused("not a certificate signing request in DER (PKCS #10)", code="csr_malformed") from None
    return request


def _key(request: x509.CertificateSigningRequest) -> PublicKey:
    try:
        key = request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CsrRefused(f"its key cannot be read; use {KEYS}", code="csr_key") from None
    match key:
        case ec.EllipticCurvePublicKey(curve=ec.SECP256R1() | ec.SECP384R1()):
            return key
        case ed25519.Ed25519PublicKey():
            return key
        case rsa.RSAPublicKey(key_size=size) if RSA_BITS_MIN <= size <= RSA_BITS_MAX:
            if key.public_numbers().e <= RSA_EXPONENT_MAX:
                return key
            raise CsrRefused(f"its RSA exponent is above {RSA_EXPONENT_MAX}; use 65537", code="csr_key")
    raise CsrRefused(f"its key is {_shown(key)}; use {KEYS}", code="csr_key")


def _shown(key: object) -> str:
    match key:
        case ec.EllipticCurvePublicKey():
            return f"of the curve {key.curve.name}"
        case rsa.RSAPublicKey():
            return f"RSA of {key.key_size} bits"
    return type(key).__name__.removesuffix("PublicKey")


def _check_signature(request: x509.CertificateSigningRequest) -> None:
    try:
        algorithm = request.signature_hash_algorithm
        is_known = algorithm is None or isinstance(algorithm, HASHES)
        is_valid = is_known and request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        is_valid = False
    if not is_valid:
        reason = "it is not signed by its own key (with SHA-256, SHA-384 or SHA-512): create a new request"
        raise CsrRefused(reason, code="csr_signature")


def _check_names(request: x509.CertificateSigningRequest, names: NodeNames, *, has_names: bool) -> None:
    found = set(_subject(request.subject))
    try:
        alternatives = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = None
    if alternatives is not None:
        found.update(_alternatives(alternatives))
    allowed = {("common name", names.node), *(("DNS", each) for each in names.dns), ("URI", names.uri)}
    allowed.update(("address", each) for each in names.addresses)
    if strange := sorted(found - allowed):
        kind, name = strange[0]
        # Allowed names are not mentioned here: a request must not serve to find out names.
        raise CsrRefused(f"it requests the {kind} {name[:64]!r}, which is not this node's", code="csr_name")
    identity = {("common name", names.node), ("DNS", names.dns[0])}
    if has_names and not found & identity:
        reason = "the signer takes names from the request, and it has none: fairlead edge join --node NAME"
        raise CsrRefused(reason, code="csr_name")


def _subject(subject: x509.Name) -> Iterator[tuple[str, str]]:
    for attribute in subject:
        kind = "common name" if attribute.oid == NameOID.COMMON_NAME else f"attribute {attribute.oid.dotted_string}"
        value = attribute.value
        yield kind, value if isinstance(value, str) else value.hex()


def _alternatives(names: Iterable[x509.GeneralName]) -> Iterator[tuple[str, str]]:
    for name in names:
        match name:
            case x509.DNSName():
                yield "DNS", name.value
            case x509.IPAddress():
                yield "address", str(name.value)
            case x509.UniformResourceIdentifier():
                yield "URI", name.value
            case _:
                yield "name of another kind", type(name).__name__


def _check_extensions(extensions: x509.Extensions) -> None:
    for extension in extensions:
        value = extension.value
        if extension.oid not in _READ:
            reason = (
                f"it requests the extension {extension.oid.dotted_string}, which a node's certificate does not have"
            )
            raise CsrRefused(reason, code="csr_malformed")
        is_authority = (isinstance(value, x509.BasicConstraints) and value.ca) or (
            isinstance(value, x509.KeyUsage) and (value.key_cert_sign or value.crl_sign)
        )
        if is_authority:
            raise CsrRefused("it requests the certificate of an authority", code="csr_ca")
