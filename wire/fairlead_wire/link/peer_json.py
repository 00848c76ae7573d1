"""Decodes JSON from a peer, with one error for everything that can be wrong with it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from fairlead_wire.errors import Malformed

Decoded = TypeVar("Decoded")


def decode(decoder: msgspec.json.Decoder[Decoded], text: bytes) -> Decoded:
    """Raises ``Malformed``.

    A typed decoder reports most faults itself; text that is not UTF-8 and nesting beyond the interpreter's
    depth come as other exceptions, which a hostile peer must not be able to raise in us.
    """
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not the JSON expected here: {error}") from None
