"""The mark that each commit of a latest table records about its rows, and what changed in the rows since.

    {"fairlead_latest": {"source": "3f0c…", "version": 812, "stamp": "9a01b2c3", "definition": "…", "keys": 10000, …}}

``source`` is the id of the rows table, ``version`` the version that the latest table reflects, and ``stamp`` a checksum
of that version's log entry, since a table restored from a copy may have other rows under the same number.

The rows' Delta log says what changed since that version:

    add                      its rows must be folded
    remove, data changed     rows are gone, perhaps the newest ones of their keys, which must then be found again
    remove, data not changed files were joined or sorted: rows still to be folded are in the new files, beside rows that
                             were already folded; removing such a file removes both

Only files of the current version are read here, which a vacuum keeps, so rows may be compacted and vacuumed at any
time.
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
"""The partition columns of a file with their values."""


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
    """A checksum of the whole entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """``files`` have rows to fold and are in the newest version; ``reduced`` are partitions that lost rows."""

    files: list[RowFile]
    reduced: frozenset[Partition]


def parse(content: bytes, where: str) -> ChangeEntry:
    """Parse a stored entry. Raises ``Stop``."""
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
        raise errors.Stop(errors.TABLE_UNFIT, f"{where}: not an entry of a Delta log: {error}") from None
    return found


def stamp(content: bytes) -> str:
    """The checksum of a stored entry."""
    return f"{zlib.crc32(content):08x}"


def outstanding(entries: Iterable[ChangeEntry], where: str) -> Outstanding:
    """What a series of entries leaves to do. Raises ``Stop`` if files cannot be read here."""
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
    """A file from the log. Raises ``Stop`` if it is outside the table, or has deleted rows."""
    if "://" in path or path.startswith("/"):
        raise errors.Stop(errors.TABLE_UNFIT, f"{where}: {path} is outside the table, as in a shallow clone: copy it")
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
"""The transaction of each commit; the log refuses one of two concurrent commits."""
_HARMLESS = ("OPTIMIZE", "VACUUM", "ADD COLUMN", "SET TBLPROPERTIES", "ADD FEATURE", "CREATE TABLE", "CHECKPOINT")


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """See the module. ``deleted`` is the number of deleted keys among ``keys``."""

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
        """The metadata of the commit in the log."""
        return {METADATA_KEY: msgspec.to_builtins(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The newest mark in the log."""

    mark: Mark
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldAfter:
    """The rows committed after this version must be folded in."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """All rows must be read, because of ``reason``."""

    reason: str


def newest(entries: Iterable[ChangeEntry]) -> Marked | None:
    """Our newest commit, with ``entries`` newest first; None if others have changed the contents since."""
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
    """What to do to get from ``mark`` to the rows' ``version``. ``stamp`` is the checksum of the log entry of the
    mark's version, None if the log no longer has it."""
    if mark is None:
        return Rebuild(reason="it did not exist, or another program changed it")
    if mark.definition != definition:
        return Rebuild(reason="its settings have changed")
    if mark.source != source:
        return Rebuild(reason="the rows table was replaced")
    if version < mark.version or (stamp is not None and mark.stamp and stamp != mark.stamp):
        return Rebuild(reason=f"the rows table was restored from a copy (it was at version {mark.version})")
    if version == mark.version:
        return Current()
    return FoldAfter(after=mark.version)
