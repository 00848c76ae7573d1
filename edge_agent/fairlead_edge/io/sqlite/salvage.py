"""Salvages a damaged SQLite file: copies every readable row into a new file, which replaces it.

    X ──rename──▶ X.salvaging ──readable rows──▶ X.new ──rename──▶ X
                      └──────────rename──▶ X.damaged (for people; replaced by the next one, may be removed)

After a crash, the next opening resumes: while ``X.salvaging`` exists without ``X``, it holds the data.  Rows are copied
unchanged; their checksums are verified later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from fairlead_edge.io import durable_file
from fairlead_edge.io.file_access import PLAIN, PLAIN_SCHEMA, SEALED_SCHEMA, FileAccess, is_database
from fairlead_edge.io.sqlite import schema_pages, wal
from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_wire import errors

WAL: Final = "-wal"
SHM: Final = "-shm"
BUSY_MILLISECONDS: Final = 5_000
KEY_MAX: Final = (1 << 63) - 1
COMMIT_ROWS: Final = 5_000
PAGE_BYTES: Final = 4096
_HEAD_BYTES: Final = 100
_FILE_FORMATS: Final = (1, 2)
_SCHEMA_FORMATS: Final = tuple(number.to_bytes(4, "big") for number in range(5))
"""0 means a file without tables."""

READ_ERRORS: Final = (apsw.Error, UnicodeDecodeError)

Fill = Callable[[apsw.Connection, apsw.Connection], None]
"""(damaged file, new empty file): copies the readable rows."""
Model = Callable[[int], apsw.Connection | None]
"""An empty store in memory with the tables of this version; None for an unknown version."""


def problem(
    path: Path,
    inspect: Callable[[apsw.Connection], str],
    *,
    model: Model,
    gone: str = "",
    access: FileAccess = PLAIN,
) -> str | None:
    """What is wrong with the file at ``path``; "" if nothing is, ``gone`` if there is no file.

    ``inspect`` checks a file that SQLite can open.  None: a progress handler interrupted it before it found anything.
    Raises ``apsw.SQLError`` if a statement fails although the tables are those of ``model``.
    """
    if is_unfinished(path):
        return "an earlier salvage was interrupted"
    if not path.exists():
        return gone
    if lost_its_end(path):
        return "its end is missing"
    if wrong := head_problem(path):
        return wrong
    try:
        connection = access.connect(path)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            return inspect(connection)
        except apsw.SQLError as error:
            if not is_schema_changed(connection, model):
                raise
            return str(error)
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        if is_strange(path, error):
            raise
        return errors.text_of(error)
    except apsw.InterruptError:
        return None


def is_unfinished(path: Path) -> bool:
    """Whether a salvage of ``path`` was interrupted."""
    return _beside(path, ".salvaging").exists()


def salvage(path: Path, *, fill: Fill, access: FileAccess = PLAIN) -> None:
    """Replace a damaged file by a sound one with the rows that ``fill`` copies.

    Raises ``OSError`` or ``apsw.Error`` if there is no room for it.
    """
    aside, new = _beside(path, ".salvaging"), _beside(path, ".new")
    if not (aside.exists() and path.exists()):
        for end in ("", WAL):
            if not Path(f"{aside}{end}").exists():
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{path}{end}", f"{aside}{end}")
        for leftover in (f"{path}{SHM}", *(f"{new}{end}" for end in ("", WAL, SHM, "-journal"))):
            Path(leftover).unlink(missing_ok=True)
        _mend(aside, _schema_kept(path), access)
        _fill(aside, new, fill, access)
        durable_file.flush(new)
        new.rename(path)
        durable_file.flush(path.parent)
    damaged = _beside(path, ".damaged")
    for end in (WAL, SHM):
        Path(f"{damaged}{end}").unlink(missing_ok=True)
        Path(f"{aside}{end}").unlink(missing_ok=True)
    aside.rename(damaged)
    durable_file.flush(path.parent)


def _schema_kept(path: Path) -> Path:
    sealed = _beside(path, SEALED_SCHEMA)
    return sealed if sealed.exists() else _beside(path, PLAIN_SCHEMA)


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def lost_its_end(path: Path) -> bool:
    """Whether a part of a page is missing; SQLite reads it as zeros in some places and as an I/O error in others."""
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, os.SEEK_END)
    if not is_database(head):
        return False  # more than its end is damaged
    return size % PAGE_BYTES != 0 and int.from_bytes(head[28:32], "big") * PAGE_BYTES > size


def head_problem(path: Path) -> str:
    """What is wrong with the file's header, so that SQLite would not open it or not write to it; "" if nothing is."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES or not is_database(head):
        return ""  # opening it will fail
    is_sound = head[18] in _FILE_FORMATS and head[19] in _FILE_FORMATS and head[44:48] in _SCHEMA_FORMATS
    return "" if is_sound else "its header is damaged"


def version_problem(path: Path, found: int, present: int) -> str:
    """What is wrong with the version ``found`` in the file, compared with the schema pages beside it; "" if nothing is.

    The pages are copied again after a migration, so a version between theirs and ``present`` was written by this
    program.  If the pages are newer than ``present``, so is the file.
    """
    kept = schema_pages.version(_schema_kept(path))
    is_written = kept is None or kept > present or kept <= found <= present
    return "" if is_written else f"its version was changed from {kept} to {found}"


def is_strange(path: Path, error: Exception) -> bool:
    """Whether it is no database and no schema pages show that it was ours: then it must not be replaced silently."""
    return isinstance(error, apsw.NotADBError) and not _schema_kept(path).exists()


def _mend(aside: Path, kept: Path, access: FileAccess) -> None:
    """Make the file readable for SQLite: fold in its log, and restore the pages that name its tables."""
    wal.fold(aside)
    schema_pages.restore(aside, kept, unless_newer=_has_tables(aside, access))


def _has_tables(path: Path, access: FileAccess) -> bool:
    try:
        connection = _opened(path, access)
        try:
            return bool(rows(connection, sql.TABLES))
        finally:
            connection.close()
    except READ_ERRORS:
        return False


def _opened(path: Path, access: FileAccess) -> apsw.Connection:
    connection = access.connect(path)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    rows(connection, sql.WRITABLE_SCHEMA)
    return connection


def _fill(aside: Path, new: Path, fill: Fill, access: FileAccess) -> None:
    target = access.connect(new)
    try:
        for pragma in sql.SALVAGE_SETTINGS:
            rows(target, pragma)
        # From an unreadable file nothing is copied.
        source = _opened(aside, access) if _has_tables(aside, access) else apsw.Connection(":memory:")
        try:
            fill(source, target)
        finally:
            source.close()
    finally:
        target.close()


def copy(
    source: apsw.Connection,
    target: apsw.Connection,
    table: str,
    key: str = "rowid",
    *,
    fixed: tuple[str, int] | None = None,
    replace: bool = False,
) -> None:
    """Copy every readable row.

    ``key`` is the integer column that orders the table; ``fixed``: a column before it, and the value of rows to copy.
    """
    names = columns(target, table)
    _copy(target, table, names, _walk(source, table, key, fixed, names), replace=replace)


def copy_small(source: apsw.Connection, target: apsw.Connection, table: str) -> None:
    """Copy a table of few rows, in the order of its primary key: from its beginning, and from its end."""
    names = columns(target, table)
    primary = [str(row[1]) for row in rows(target, sql.table_info(table)) if row[5]]
    for backwards in (False, True):
        statement = sql.in_order(table, names, primary, backwards=backwards)
        _copy(target, table, names, _back(source, statement, ()))


def lacks(connection: apsw.Connection, model: apsw.Connection) -> str:
    """The first table or column of ``model`` that is missing; "" if none is."""
    for (table,) in rows(model, sql.TABLES):
        missing = set(columns(model, str(table))) - set(columns(connection, str(table)))
        if missing:
            return f"{table}.{min(missing)} is missing"
    return ""


def is_schema_changed(connection: apsw.Connection, model: Model) -> bool:
    """Whether tables and indexes differ from those of ``model``, so that a failed statement is due to damage.

    SQLite has a single error code for statements it cannot run, so only the schema shows the cause.
    """
    try:
        [(version,)] = rows(connection, sql.USER_VERSION)
        present = rows(connection, sql.SCHEMA)
    except READ_ERRORS:
        return True
    expected = model(version)
    if expected is None:
        return False
    try:
        return present != rows(expected, sql.SCHEMA)
    finally:
        expected.close()


def columns(connection: apsw.Connection, table: str) -> list[str]:
    """The names of the columns; none if they cannot be read."""
    try:
        return [str(row[1]) for row in rows(connection, sql.table_info(table))]
    except READ_ERRORS:
        return []


def _copy(
    target: apsw.Connection,
    table: str,
    names: list[str],
    found: Iterator[tuple[Any, ...]],
    *,
    replace: bool = False,
) -> None:
    insert = sql.insert(table, names, replace=replace)
    target.execute(sql.BEGIN)
    for number, row in enumerate(found, 1):
        with contextlib.suppress(apsw.ConstraintError, apsw.MismatchError):  # a value that no sound row has
            target.execute(insert, row)
        if number % COMMIT_ROWS == 0:
            target.execute(sql.COMMIT)
            target.execute(sql.BEGIN)
    target.execute(sql.COMMIT)


def _walk(
    source: apsw.Connection, table: str, key: str, fixed: tuple[str, int] | None, names: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows by ascending key.  If a page cannot be read, skip it, and read backwards towards it from the next one."""
    column, bound = (fixed[0], (fixed[1],)) if fixed else ("", ())
    at, step = 0, 1
    lost: int | None = None
    while at <= KEY_MAX:
        try:
            for row in source.execute(sql.rows_from(table, names, key, column), (*bound, at)):
                if not isinstance(row[0], int) or row[0] < at:
                    continue
                if lost is not None:
                    between = sql.rows_between(table, names, key, column)
                    yield from (back[1:] for back in _back(source, between, (*bound, lost, row[0] - 1)))
                    lost, step = None, 1
                at = row[0] + 1
                yield tuple(row[1:])
            break
        except READ_ERRORS:
            lost = at if lost is None else lost
            at = lost + step
            step *= 2
    if lost is not None:
        yield from (back[1:] for back in _back(source, sql.rows_back_to(table, names, key, column), (*bound, lost)))


def _back(source: apsw.Connection, statement: str, bound: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    with contextlib.suppress(*READ_ERRORS):
        for row in source.execute(statement, tuple(bound)):
            yield tuple(row)
