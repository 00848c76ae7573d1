"""What a Delta log says has been added to the rows, and taken away, since a version.

    add                      its rows are to be folded
    remove, data changed     rows are gone: a key whose newest row may be one of them has to be looked for again
    remove, data not changed files were joined or sorted: what had still to be folded lies in the files that replace it,
                             beside rows that were folded before: when such a file goes, those are gone, too

A vacuum takes only files that the current version does not have, and of those none is asked for here; so rows may be
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
