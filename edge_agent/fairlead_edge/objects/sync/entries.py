"""Entries of what is held, on the wire: so many to a frame, packed, the last one marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead_wire import message
from fairlead_wire.link import codec

PER_FRAME: Final = 2000


def frames(parent_id: int, entries: list[message.HeldEntry]) -> Iterator[tuple[message.Entries, bytes]]:
    """The answer to a list of buckets; one empty frame when nothing is held there."""
    for start in range(0, max(1, len(entries)), PER_FRAME):
        last = start + PER_FRAME >= len(entries)
        encoding, content = codec.pack(msgspec.json.encode(entries[start : start + PER_FRAME]))
        yield message.Entries(parent_id=parent_id, last=last, encoding=encoding), content
