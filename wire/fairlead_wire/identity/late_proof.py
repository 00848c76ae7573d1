"""What a device signs with its old key when its certificate ended while it was away: bytes that fit one conversation.

    fairlead-late/1 · 0 · the hub's nonce · SHA-256 of the hub's certificate · SHA-256 of the new request

A program between device and hub shows another certificate, so that what was signed for one is of no use with the
other; and a signature never serves for a second request.
"""

from __future__ import annotations

import hashlib
from typing import Final

PREFIX: Final = b"fairlead-late/1\0"
NONCE_BYTES: Final = 32


def content(nonce: bytes, *, hub_certificate: bytes, request: bytes) -> bytes:
    """``hub_certificate`` and ``request`` in DER.  Raises ``ValueError`` for a nonce of another length."""
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    return PREFIX + nonce + hashlib.sha256(hub_certificate).digest() + hashlib.sha256(request).digest()
