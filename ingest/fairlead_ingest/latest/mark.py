"""What each commit of a latest table records of where it comes from, and what follows from it.

    {"fairlead_latest": {"source": "3f0c…", "version": 812, "stamp": "9a01b2c3", "definition": "…", "keys": 10000, …}}

``source`` is the id of the rows table, ``version`` the one of which this is the latest table, ``stamp`` a check sum of
that version's log entry: a table brought back from a copy may have other rows under the same number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairlead_ingest.latest.row_changes import ChangeEntry

METADATA_KEY: Final = "fairlead_latest"
SEQUENCE: Final = "fairlead:latest"
"""The transaction of each commit: of two at the same moment one is refused by the log."""
_HARMLESS = ("OPTIMIZE", "VACUUM", "ADD COLUMN", "SET TBLPROPERTIES", "ADD FEATURE", "CREATE TABLE", "CHECKPOINT")


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """See the module. ``deleted``: keys among ``keys`` that are taken out; ``at_ms``: of the commit, 0 in the log."""

    source: str
    version: int
    definition: str
    stamp: str = ""
    keys: int = 0
    deleted: int = 0
    buckets: int = 1
    sequence: int = 0

    @property
    def metadata(self) -> dict[str, Any]:
        """What the log stores with the commit."""
        return {METADATA_KEY: msgspec.to_builtins(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The newest mark, as the log has it."""

    mark: Mark
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldAfter:
    """What was committed to the rows after this version is to be folded in."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """All of the rows are to be read, because of ``reason``."""

    reason: str


def newest(entries: Iterable[ChangeEntry]) -> Marked | None:
    """The newest commit of ours, ``entries`` newest first; None where others changed what is there since."""
    for entry in entries:
        stored = entry.info.get(METADATA_KEY)
        if stored is not None:
            try:
                mark = msgspec.convert(stored, Mark)
            except msgspec.ValidationError:
                return None
            return Marked(mark=mark, timestamp_ms=int(entry.info.get("timestamp", 0)))
        if not str(entry.info.get("operation", "")).startswith(_HARMLESS):
            return None
    return None


def decide(
    mark: Mark | None, *, source: str, version: int, stamp: str | None, definition: str
) -> Current | FoldAfter | Rebuild:
    """What leads from ``mark`` to the rows' ``version``; ``stamp``: of the rows' log entry of the mark's version, None
    where the log no longer has it."""
    if mark is None:
        return Rebuild(reason="it is new, or was changed by others")
    if mark.definition != definition:
        return Rebuild(reason="its settings were changed")
    if mark.source != source:
        return Rebuild(reason="the table of rows is another one")
    if version < mark.version or (stamp is not None and mark.stamp and stamp != mark.stamp):
        return Rebuild(reason=f"the table of rows was brought back from a copy (it was at version {mark.version})")
    if version == mark.version:
        return Current()
    return FoldAfter(after=mark.version)
