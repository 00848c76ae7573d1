"""What every header has, and the bounded types of its fields."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

PROTOCOL = 1
NAME_CHARS_MAX = 256
"""UIDs, versions, digests: names that are no paths."""

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Also a fence: exact in every JSON reader's number."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A line, a column, an index."""
Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
REASON_CHARS_MAX = 1024
"""Of a peer's explanation that is written down."""
_UID = r"^[A-Za-z0-9_-]{1,128}\Z"
Uid = Annotated[str, msgspec.Meta(pattern=_UID)]
"""Of an object an edge names: the hub makes names and paths of it.  No dot: ``<node>.<uid>`` has one meaning only."""


def is_uid(text: str) -> bool:
    """May an object be held under this?"""
    return re.match(_UID, text) is not None


Encoding = Literal["", "zstd"]


Position = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40})?\Z")]
"""Of a message in its topic, hex: ids of messaging, in their order.  Empty: it is not known."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="operation", rename="camel", omit_defaults=True):
    """Base of all headers; ``operation`` on the wire is the verb."""
