"""Which authorities of a PEM text a token names: by the SHA-256 of their public keys.

    PEM of authorities ─by_pin─▶ {pin: PEM of that one}

By ``cryptography``, which reads what OpenSSL reads and refuses what it would read differently: whom to trust is decided
here.  It is imported when it is needed, since the edge agent does without.
"""

from __future__ import annotations

from typing import Final

from fairlead_wire.identity import join_token

ALPN: Final = "fairlead-join/1"
"""What a device without a certificate offers in its TLS handshake: the joining conversation, and nothing else."""
PEM_BYTES_MAX: Final = 256 * 1024
AUTHORITIES_MAX: Final = 32


def by_pin(pem: bytes) -> dict[str, bytes]:
    """In the order of the text.  Raises ``ValueError`` with a sentence."""
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
    except Exception:  # noqa: BLE001 - parsers of hostile bytes raise many kinds, and all mean the same
        raise ValueError("holds no certificates in PEM that can be read") from None
    if len(found) > AUTHORITIES_MAX:
        raise ValueError(f"holds more than {AUTHORITIES_MAX} certificates")
    return {
        join_token.pin_of(key): each.public_bytes(serialization.Encoding.PEM)
        for key, each in zip(keys, found, strict=True)
    }
