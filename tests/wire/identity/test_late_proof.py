"""The bytes a device signs to renew late."""

from __future__ import annotations

import hashlib

import pytest

from fairlead_wire.identity import late_proof

NONCE = bytes(range(32))


def test_the_bytes_are_those_of_the_protocol() -> None:
    found = late_proof.content(NONCE, hub_certificate=b"hub", request=b"request")
    hashes = hashlib.sha256(b"hub").digest() + hashlib.sha256(b"request").digest()
    assert found == b"fairlead-late/1\0" + NONCE + hashes and len(found) == 112


@pytest.mark.parametrize("nonce", [b"", NONCE[:-1], NONCE + b"x"])
def test_a_nonce_of_another_length_is_refused(nonce: bytes) -> None:
    """Else bytes could move from one part into the next."""
    with pytest.raises(ValueError, match="32 bytes"):
        late_proof.content(nonce, hub_certificate=b"", request=b"")
