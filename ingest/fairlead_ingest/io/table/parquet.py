"""Folders of plain Parquet files with a commit log of our own, for readers that know no Delta.

    <table>/_commits/00000000000000000012.json   commit 12: the files it added, and all the table knows since
    <table>/_pending/part-….pending              what tasks have written, not committed yet
    <table>/_topic=…/_date=…/part-….parquet      committed rows, and only those

A commit is one manifest, written and fsynced under another name and then linked to its number: a writer that finds the
number taken has collided. From that moment it stands. Only then do its files move to where readers look; what a kill
leaves pending is moved by the next writer before it does anything else, so only the newest commit can have files to
move.

So a program that reads the folder by name (Spark, DuckDB, polars, a shell) meets each committed row once and no other;
a batch of several files appears file by file. ``_pending`` and ``_commits`` are hidden from Spark by their first letter
and from patterns by their endings. The folder must be on one file system, and that must have hard links.
"""

from __future__ import annotations

import errno
import functools
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import Schema
from pyarrow import fs

from fairlead_ingest import errors
from fairlead_ingest.io.table import table_format
from fairlead_ingest.io.table.files import (
    PENDING,
    PENDING_SUFFIX,
    PartitionedFiles,
    WrittenFile,
    pending_path,
    sync,
    sync_all,
)
from fairlead_ingest.io.table.table_format import COMMITS, Size
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit, commit_info
from fairlead_ingest.table.commit import Append, Collided, TableState
from fairlead_ingest.table.commit_info import CommitInfo, LogEntry
from fairlead_ingest.table.store_path import Place

# Manifests kept for status and history; the newest alone says everything a commit has to know.
MANIFESTS_MAX = 1000
# Tidying is a look at the whole folder; not with every commit.
TIDY_EVERY = 100
# Files whose highest id is remembered: some 300 bytes each.
FOOTERS_MAX = 20_000
_DIGITS = 20
_PARTITIONING = ds.partitioning(pa.schema([("_topic", pa.string()), ("_date", pa.date32())]), flavor="hive")


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    rows: int


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. ``newest``: what the newest commit with positions left; sums are over the table's life."""

    v: int = 1
    number: int
    timestamp: int
    # Spark's and Delta's JSON for a schema.
    columns: msgspec.Raw
    parts: list[_Part] = []
    metadata: dict[str, Any] = {}
    newest: dict[str, Any] = {}
    transactions: dict[str, int] = {}
    files: int = 0
    rows: int = 0
    bytes: int = 0

    def schema(self) -> Schema:
        return Schema.from_json(bytes(self.columns).decode())


def ensure(table: Place, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
    table = _folder(table)
    wanted = Schema.from_arrow(schema)
    newest = _newest(table)
    if newest is None:
        table_format.refuse_other(table, "parquet")
        if table.is_dir() and any(entry.name not in (COMMITS, PENDING) for entry in table.iterdir()):
            raise errors.Stop(errors.TABLE_UNFIT, f"{table}: the folder holds files that are no table of this job")
        (table / COMMITS).mkdir(parents=True, exist_ok=True)
        sync(table)
        first = _Manifest(number=0, timestamp=_now_ms(), columns=msgspec.Raw(wanted.to_json().encode()))
        _ = _publish(table, first)  # another that made it first wanted the same, or the next look refuses
        return
    _move_in(table, newest)
    missing = table_format.missing_columns(table, newest.schema(), schema)
    if missing:
        grown = Schema([*newest.schema().fields, *missing])
        _follow(table, newest, columns=msgspec.Raw(grown.to_json().encode()), parts=[], metadata={})


def writing(table: Place) -> PartitionedFiles:
    """Files where no reader looks."""
    table = _folder(table)
    return PartitionedFiles(table, pending=True)


def state(table: Place, application: str) -> TableState:
    """What the newest manifest says, nothing where there is none; completes what a kill left half moved."""
    table = _folder(table)
    newest = _newest(table)
    if newest is None:
        return TableState()
    _move_in(table, newest)
    info = _info(newest)
    return TableState(
        batch=newest.transactions.get(application, -1),
        reached=info.reached,
        commit_sequence=newest.transactions.get(commit.COMMIT_SEQUENCE, 0),
        totals=info.totals,
    )


def reached(table: Place) -> Offsets:
    """How far the table goes per topic; nowhere where there is none."""
    table = _folder(table)
    newest = _newest(table)
    return Offsets() if newest is None else _info(newest).reached


def highest_ids(table: Place) -> dict[str, str]:
    """By topic, the highest id that the footers of its files say: our log has no statistics."""
    table = _folder(table)
    highest: dict[str, str] = {}
    for path in table.glob("_topic=*/_date=*/*.parquet"):
        last = _highest_id(str(path))
        topic = unquote(path.parent.parent.name.removeprefix("_topic="))
        if last is not None and last > highest.get(topic, ""):
            highest[topic] = last
    return highest


def append(table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
    """Commit ``files`` with what was decided, durably. Raises ``Collided``, ``Wait``."""
    table = _folder(table)
    newest = _required(table)
    if not decided.follows(newest.transactions.get(commit.COMMIT_SEQUENCE, 0)):
        raise Collided(f"{table}: another writer has committed since")
    with _room(table):
        _move_in(table, newest)
        if files:
            sync(table / PENDING)
        _follow(
            table,
            newest,
            parts=[_Part(path=file.path, size=file.size, rows=file.rows) for file in files],
            metadata=decided.metadata,
            newest=newest.newest if decided.info is None else decided.info.to_dict(),
            transactions={**newest.transactions, **decided.transactions},
            files=newest.files + len(files),
            rows=newest.rows + sum(file.rows for file in files),
            bytes=newest.bytes + sum(file.size for file in files),
        )


def last_entries(table: Place, limit: int) -> list[LogEntry]:
    """The newest commits, newest first; empty where there is no table."""
    table = _folder(table)
    found: list[LogEntry] = []
    for number in sorted(_numbers(table), reverse=True)[:limit]:
        manifest = _read(table, number)
        if manifest is not None:
            info = commit_info.read(manifest.metadata)
            found.append(LogEntry(version=manifest.number, timestamp_ms=manifest.timestamp, info=info))
    return found


def version(table: Place) -> int | None:
    """The newest commit whose files are all where readers look, None where there is no table."""
    table = _folder(table)
    newest = _newest(table)
    if newest is None:
        return None
    is_moving = any(pending_path(table, part.path).exists() for part in newest.parts)
    return newest.number - 1 if is_moving else newest.number


def size(table: Place) -> Size | None:
    """What the log says is in the table, None where there is none."""
    table = _folder(table)
    newest = _newest(table)
    if newest is None:
        return None
    return Size(version=newest.number, files=newest.files, rows=newest.rows, bytes=newest.bytes)


def files(table: Place) -> list[tuple[str, str]]:
    """(path, topic) of every file, oldest first."""
    table = _folder(table)
    found = sorted(table.glob("_topic=*/_date=*/*.parquet"), key=_age)
    paths = [path.relative_to(table) for path in found]
    return [(str(path), unquote(path.parts[0].removeprefix("_topic="))) for path in paths]


def dataset(table: Place) -> ds.Dataset | None:
    """Its rows, None where there is no table; the columns are the log's."""
    table = _folder(table)
    newest = _newest(table)
    if newest is None:
        return None
    schema = pa.schema(newest.schema().to_arrow())
    paths = [path for path, _ in files(table)]
    if not paths:
        return ds.dataset(schema.empty_table())
    below = fs.SubTreeFileSystem(str(table), fs.LocalFileSystem())
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=below, partitioning=_PARTITIONING)


def vacuum(table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete what killed tasks and commits left and what is older than the retention; their paths."""
    table = _folder(table)
    newest = _newest(table)
    if newest is None:
        return []
    before = time.time() - retention_hours * 3600
    ours = {pending_path(table, part.path) for part in newest.parts}
    left = [
        path
        for path in (*(table / PENDING).glob(f"*{PENDING_SUFFIX}"), *(table / COMMITS).glob(".*"))
        if path not in ours and _age(path) < before
    ]
    for path in left if not dry_run else ():
        path.unlink(missing_ok=True)
    return sorted(str(path.relative_to(table)) for path in left)


# --- inside


def _follow(table: Path, before: _Manifest, **changes: Any) -> None:
    """The commit after ``before``, and its files where readers look."""
    manifest = msgspec.structs.replace(before, number=before.number + 1, timestamp=_now_ms(), **changes)
    if not _publish(table, manifest):
        raise Collided(f"{table}: another writer committed at the same moment")
    _move_in(table, manifest)
    if manifest.number % TIDY_EVERY == 0:
        for number in _numbers(table):
            if number <= manifest.number - MANIFESTS_MAX:
                _manifest_path(table, number).unlink(missing_ok=True)


def _folder(table: Place) -> Path:
    """Plain files are committed by links, which no store has; the settings refuse to ask for it."""
    if isinstance(table, Path):
        return table
    raise errors.Stop(errors.BAD_OPTION, f'{table}: plain Parquet files need a folder; use table_format = "delta"')


def _publish(table: Path, manifest: _Manifest) -> bool:
    """Make the commit stand; False where its number is taken."""
    folder = table / COMMITS
    draft = folder / f".{uuid.uuid4().hex}"
    try:
        draft.write_bytes(msgspec.json.encode(manifest))
        sync(draft)
        # A link is made or refused whole, and unlike a rename it never replaces.
        os.link(draft, _manifest_path(table, manifest.number))
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    sync(folder)
    return True


def _move_in(table: Path, manifest: _Manifest) -> None:
    """Bring the files of a commit that stands to where readers look; again and again does no harm."""
    folders = set()
    for part in manifest.parts:
        waiting, place = pending_path(table, part.path), table / part.path
        if not waiting.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(waiting, place)
        except FileNotFoundError:
            continue  # another writer has just moved it
        folders |= {place.parent, place.parent.parent, table}
    sync_all(folders)


@contextmanager
def _room(table: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise


def _numbers(table: Path) -> list[int]:
    try:
        return [int(entry.name[:_DIGITS]) for entry in os.scandir(table / COMMITS) if entry.name[:_DIGITS].isdigit()]
    except FileNotFoundError:
        return []


def _newest(table: Path) -> _Manifest | None:
    numbers = _numbers(table)
    return _read(table, max(numbers)) if numbers else None


def _required(table: Path) -> _Manifest:
    newest = _newest(table)
    if newest is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return newest


def _read(table: Path, number: int) -> _Manifest | None:
    path = _manifest_path(table, number)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except FileNotFoundError:
        return None  # tidied away since it was listed
    except (OSError, msgspec.DecodeError) as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"{path}: {error}") from error
    if manifest.v != 1:
        raise errors.Stop(errors.TABLE_UNFIT, f"{path}: manifest version {manifest.v}; ours is 1")
    return manifest


def _manifest_path(table: Path, number: int) -> Path:
    return table / COMMITS / f"{number:0{_DIGITS}}.json"


@functools.lru_cache(maxsize=FOOTERS_MAX)
def _highest_id(path: str) -> str | None:
    """Of one file, None where it has no ids.  No other file ever gets its name, so that one look is enough."""
    footer = pq.read_metadata(path)
    if "_id" not in footer.schema.names:
        return None
    column = footer.schema.names.index("_id")
    bounds = [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]
    if any(each is None or not each.has_min_max for each in bounds):  # written by another program
        found = pc.max(pq.read_table(path, columns=["_id"], partitioning=None)["_id"]).as_py()
        return None if found is None else str(found)
    return max((str(each.max) for each in bounds if each is not None), default=None)


def _info(manifest: _Manifest) -> CommitInfo:
    """What the newest commit with positions left."""
    return commit_info.parse(manifest.newest) if manifest.newest else CommitInfo(reached=Offsets())


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _now_ms() -> int:
    return int(time.time() * 1000)
