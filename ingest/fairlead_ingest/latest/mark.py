"""What each commit of a latest table records of where it comes from, and what changed in the rows since.

    {"fairlead_latest": {"source": "3f0c…", "version": 812, "stamp": "9a01b2c3", "definition": "…", "keys": 10000, …}}

``source`` is the id of the rows table, ``version`` the one of which this is the latest table, ``stamp`` a checksum of
that version's log entry: a table restored from a copy may have other rows under the same number.

The rows' Delta log says what changed since that version:

    add                      its rows are to be folded
    remove, data changed     rows are gone: a key whose newest row may be one of them has to be looked up again
    remove, data not changed files were joined or sorted: what had still to be folded lies in the files that replace it,
                             beside rows that were folded before: when such a file goes, those are gone, too

A vacuum takes only files that the current version does not have, and none of those is read here, so rows may be
compacted and vacuumed at any time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fairlead_ingest import errors

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
Partition = tuple[tuple[str, str | None], ...]
"""Of a file: the partition columns and their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """One file of the rows table."""

    path: str
    partition: Partition


class _Add(msgspec.Struct):
    path: str
    partition: dict[str, str | None] = msgspec.field(name="partitionValues", default_factory=dict)
    data_change: bool = msgspec.field(name="dataChange", default=True)
    deletion_vector: Any = msgspec.field(name="deletionVector", default=None)


class _LogLine(msgspec.Struct):
    add: _Add | None = None
    remove: _Add | None = None
    commit_info: dict[str, Any] | None = msgspec.field(name="commitInfo", default=None)


_line = msgspec.json.Decoder(_LogLine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """One entry of a log."""

    added: list[_Add] = field(default_factory=list)
    removed: list[_Add] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    stamp: str = ""
    """A check sum of the whole entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """``files``: with rows to fold, all of them of the version reached; ``reduced``: partitions that lost rows."""

    files: list[RowFile]
    reduced: frozenset[Partition]


def parse(content: bytes, where: str) -> ChangeEntry:
    """An entry as it is stored. Raises ``Stop``."""
    found = ChangeEntry(stamp=stamp(content))
    try:
        for text in content.splitlines():
            line = _line.decode(text)
            if line.add is not None:
                found.added.append(line.add)
            if line.remove is not None:
                found.removed.append(line.remove)
            if line.commit_info is not None:
                found.info.update(line.commit_info)
    except msgspec.MsgspecError as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"{where}: no entry of a Delta log: {error}") from None
    return found


def stamp(content: bytes) -> str:
    """Of an entry as it is stored."""
    return f"{zlib.crc32(content):08x}"


def outstanding(entries: Iterable[ChangeEntry], where: str) -> Outstanding:
    """Of entries in their order. Raises ``Stop`` where files are of a kind that cannot be read."""
    pending: dict[str, RowFile] = {}
    joined: set[str] = set()
    reduced: set[Partition] = set()
    for entry in entries:
        moved: set[Partition] = set()
        for gone in entry.removed:
            was = pending.pop(gone.path, None)
            if gone.data_change and (was is None or gone.path in joined):
                reduced.add(_partition(gone))
            elif was is not None and not gone.data_change:
                moved.add(was.partition)
        for added in entry.added:
            if added.data_change or _partition(added) in moved:
                pending[added.path] = row_file(added.path, _partition(added), where, added.deletion_vector)
                if not added.data_change:
                    joined.add(added.path)
    return Outstanding(files=list(pending.values()), reduced=frozenset(reduced))


def row_file(path: str, partition: Partition, where: str, deletion_vector: object = None) -> RowFile:
    """As the log names it. Raises ``Stop`` where it lies elsewhere, or some of its rows are deleted without a trace."""
    if "://" in path or path.startswith("/"):
        raise errors.Stop(errors.TABLE_UNFIT, f"{where}: {path} lies outside the table, as in a shallow clone: copy it")
    if deletion_vector is not None:
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"{where}: {path} has a deletion vector; rewrite such files (Spark: REORG TABLE … APPLY (PURGE)) and turn"
            " them off (delta.enableDeletionVectors = false)",
        )
    # The log quotes the names it finds on disk.
    return RowFile(path=unquote(path), partition=partition)


def _partition(file: _Add) -> Partition:
    return tuple(sorted(file.partition.items()))


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
