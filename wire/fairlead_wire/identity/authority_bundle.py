"""A bundle of certificate authorities: PEM, bounded, and identified by its digest.

    PEM ─certificates─▶ DER of each ─digest─▶ 64 hexadecimal digits, independent of order and comments
     │
     ├─by_pin─▶ {pin of a join token: PEM of that authority}
     └─reaches─▶ whether a certificate chain leads to one of the authorities

``certificates`` and ``digest`` work without ``cryptography``, which the edge agent does not import; OpenSSL parses the
bundle again before it is trusted.  ``by_pin`` and ``reaches`` decide whom to trust, so they use ``cryptography``, which
agrees with OpenSSL on what a certificate is.  They import it when called.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairlead_wire.identity import certificate, join_token

if TYPE_CHECKING:
    from cryptography import x509

BYTES_MAX: Final = 128 * 1024
"""Largest bundle that is sent in a session."""
CHAIN_BYTES_MAX: Final = 32 * 1024
"""Largest size of the hub's own certificates, which are sent with the bundle in a frame's header."""
PEM_BYTES_MAX: Final = 256 * 1024
"""Largest PEM file that ``by_pin`` reads."""
AUTHORITIES_MAX: Final = 32
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_BLOCK: Final = re.compile(_BEGIN + rb"([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")


def certificates(pem: bytes) -> tuple[bytes, ...]:
    """DER of each certificate.  Raises ``ValueError`` if there are none or too many, or one cannot be parsed."""
    if len(pem) > BYTES_MAX:
        raise ValueError(f"larger than {BYTES_MAX} bytes")
    begun, blocks = pem.count(_BEGIN), _BLOCK.findall(pem)
    if not begun:
        raise ValueError("holds no certificate")
    if begun > AUTHORITIES_MAX:
        raise ValueError(f"holds more than {AUTHORITIES_MAX} certificates")
    if len(blocks) != begun:
        raise ValueError("holds a certificate that is cut off")
    found = []
    for place, block in enumerate(blocks, 1):
        try:
            der = base64.b64decode(b"".join(block.split()), validate=True)
            certificate.read(der)
        except ValueError:
            raise ValueError(f"certificate {place} of {begun} cannot be read") from None
        found.append(der)
    return tuple(found)


def digest(pem: bytes) -> str:
    """A digest of the set of certificates, in any order.  Raises ``ValueError``."""
    sums = sorted({hashlib.sha256(each).digest() for each in certificates(pem)})
    return hashlib.sha256(b"".join(sums)).hexdigest()


def by_pin(pem: bytes) -> dict[str, bytes]:
    """PEM of each authority by the pin of its public key, in file order.  Raises ``ValueError``."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    if len(pem) > PEM_BYTES_MAX:
        raise ValueError(f"larger than {PEM_BYTES_MAX} bytes")
    try:
        found = x509.load_pem_x509_certificates(pem)
        keys = [
            each.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
            for each in found
        ]
    except Exception:  # noqa: BLE001 - for hostile bytes the parser raises many types, which all mean the same
        raise ValueError("holds no certificates in PEM that can be read") from None
    if len(found) > AUTHORITIES_MAX:
        raise ValueError(f"holds more than {AUTHORITIES_MAX} certificates")
    return {
        join_token.pin_of(key): each.public_bytes(serialization.Encoding.PEM)
        for key, each in zip(keys, found, strict=True)
    }


def is_issued(subject: x509.Certificate, authority: x509.Certificate) -> bool:
    """True if this authority issued and signed ``subject``."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        subject.verify_directly_issued_by(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True


def reaches(chain: bytes, authorities: bytes) -> bool:
    """True if the first certificate of ``chain`` leads to one of ``authorities``, directly or through the others.

    Both are PEM.  Only signatures are checked; each handshake checks the dates.  Raises ``ValueError``.
    """
    from cryptography import x509

    shown = x509.load_pem_x509_certificates(chain)
    trusted = x509.load_pem_x509_certificates(authorities)
    return _reaches(shown[0], shown[1:], trusted)


def _reaches(
    subject: x509.Certificate, between: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]
) -> bool:
    if subject in trusted or any(is_issued(subject, each) for each in trusted):
        return True
    # Each intermediate is used once, so a cycle of them terminates.
    return any(
        is_issued(subject, each) and _reaches(each, [*between[:place], *between[place + 1 :]], trusted)
        for place, each in enumerate(between)
    )
