"""Decodes JSON from a peer, with a single error type."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fairlead_wire.errors import Malformed

Decoded = TypeVar("Decoded")


def decode(decoder: msgspec.json.Decoder[Decoded], text: bytes) -> Decoded:
    """Decode ``text``.  Raises ``Malformed``.

    A typed decoder alone would let a hostile peer raise ``UnicodeDecodeError`` (text that is not UTF-8) and
    ``RecursionError`` (deep nesting) in us.
    """
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not the JSON expected here: {error}") from None
