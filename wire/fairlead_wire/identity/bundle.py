"""A bundle of authorities as it travels and lies on disk: PEM, bounded, and known by its digest.

    PEM ─certificates─▶ DER of each ─digest─▶ 64 hexadecimal digits, the same in any order and with any remarks

Without ``cryptography``, which the agent does not import.  OpenSSL reads them once more before they are believed.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from fairlead_wire.identity import certificate
from fairlead_wire.identity.pins import AUTHORITIES_MAX

BYTES_MAX: Final = 128 * 1024
"""Of a bundle in a session."""
CHAIN_BYTES_MAX: Final = 32 * 1024
"""Of the hub's own certificates beside it, which stand in a frame's header."""
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_BLOCK: Final = re.compile(_BEGIN + rb"([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")


def certificates(pem: bytes) -> tuple[bytes, ...]:
    """DER of each.  Raises ``ValueError`` with a sentence: none, too many, or one that cannot be read."""
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
    """The same for the same certificates, in whatever order.  Raises ``ValueError``."""
    sums = sorted({hashlib.sha256(each).digest() for each in certificates(pem)})
    return hashlib.sha256(b"".join(sums)).hexdigest()
