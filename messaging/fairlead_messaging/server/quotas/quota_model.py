"""``[[quotas]]`` as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Self

import msgspec
import pydantic
from pydantic import Field

from fairlead_messaging.server.access import topic_glob
from fairlead_wire.event import SYSTEM_NAMESPACE
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model

BYTES_MAX: Final = 2**50
TOPICS_MAX: Final = 1_000_000
_GLOB = re.compile(r"[A-Za-z0-9_*-]{1,200}")


class QuotaModel(Model):
    """Of each namespace that matches, for itself; the first entry that matches counts. Beyond it: 429."""

    namespace: str
    """`*` stands for any characters. Never about `system`, which is Fairlead's own."""
    bytes_per_second: Annotated[int, Field(ge=1, le=BYTES_MAX)] | None = None
    """Of messages published or stored: their payload, and 64 bytes for each. One request may be more than a second's
    worth; what follows waits the longer."""
    topics: Annotated[int, Field(ge=0, le=TOPICS_MAX)] | None = None
    """How many there may be."""
    stored_bytes: Annotated[int, Field(ge=1, le=BYTES_MAX)] | None = None
    """Of messages it holds, counted in the same way; those that have expired are none."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        if not _GLOB.fullmatch(self.namespace):
            yield Mistake("namespace", "must be a namespace's name, where * stands for any characters")
        elif self.namespace == SYSTEM_NAMESPACE:
            yield Mistake("namespace", "system is Fairlead's own and has no quota")
        if self.bytes_per_second is None and self.topics is None and self.stored_bytes is None:
            yield Mistake("", "limits nothing: give bytes_per_second, topics or stored_bytes")


class Quota(msgspec.Struct, frozen=True):
    """What one namespace may; None: as much as it wants."""

    bytes_per_second: int | None = None
    topics: int | None = None
    stored_bytes: int | None = None


UNLIMITED: Final = Quota()


class Quotas:
    """By namespace."""

    def __init__(self, entries: list[QuotaModel]) -> None:
        self._entries = [
            (each.namespace, Quota(each.bytes_per_second, each.topics, each.stored_bytes)) for each in entries
        ]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def of(self, namespace: str) -> Quota:
        if namespace == SYSTEM_NAMESPACE:
            return UNLIMITED
        return next((quota for glob, quota in self._entries if topic_glob.part_matches(glob, namespace)), UNLIMITED)
