"""A peer's JSON."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_wire.errors import Malformed
from fairlead_wire.link import peer_json

NUMBERS = msgspec.json.Decoder(list[int])


def test_what_fits_is_read() -> None:
    assert peer_json.decode(NUMBERS, b"[1, 2]") == [1, 2]


@pytest.mark.parametrize("text", [b"", b"[1", b'["a"]', b'["\xff"]', b"[" * 100_000])
def test_all_that_can_be_wrong_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed, match="not the JSON expected here"):
        peer_json.decode(msgspec.json.Decoder() if text.startswith(b"[[") else NUMBERS, text)
