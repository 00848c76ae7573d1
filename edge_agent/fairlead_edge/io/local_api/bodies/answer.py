"""What answers have in common."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of an answer, read as it is written."""
