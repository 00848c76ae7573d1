"""A damaged SQLite file becomes a sound one that holds what can still be read of it, row by row.

    X ──rename──▶ X.salvaging ──rows that can be read──▶ X.new ──rename──▶ X
                      └──────────rename──▶ X.damaged (for people; replaced by the next one, may be removed)

A crash in between is gone on from at the next opening: while ``X.salvaging`` is there, it is the truth, unless ``X`` is
there as well.  Rows are taken over as they are; whether they are what was stored, their checksums show later.
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
"""0 in a file without tables."""

READ_ERRORS: Final = (apsw.Error, UnicodeDecodeError)

Fill = Callable[[apsw.Connection, apsw.Connection], None]
"""(damaged, new and empty): take over what can be read."""
Model = Callable[[int], apsw.Connection | None]
"""An empty store in memory with the tables of this version; None when the program does not know it."""


def problem(
    path: Path,
    look: Callable[[apsw.Connection], str],
    *,
    model: Model,
    gone: str = "",
    access: FileAccess = PLAIN,
) -> str | None:
    """What is wrong with the file at ``path``; "" when nothing is, and ``gone`` when there is none.

    ``look`` reads what SQLite opens.  None: it was ended by a progress handler, and had found nothing until then.
    Raises ``apsw.SQLError`` when a statement fails although the tables are those of ``model``.
    """
    if is_unfinished(path):
        return "an earlier salvage did not come to its end"
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
            return look(connection)
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
    """Did a salvage of ``path`` begin that did not come to its end?"""
    return _beside(path, ".salvaging").exists()


def salvage(path: Path, *, fill: Fill, access: FileAccess = PLAIN) -> None:
    """Replace a damaged file by a sound one, with the rows that ``fill`` takes over.

    Raises ``OSError`` or ``apsw.Error`` when there is no room for it.
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
    """Is a part of a page gone?  SQLite takes it for zeros in one place, and for an error of the disk in another."""
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, os.SEEK_END)
    if not is_database(head):
        return False  # it lost more than that
    return size % PAGE_BYTES != 0 and int.from_bytes(head[28:32], "big") * PAGE_BYTES > size


def head_problem(path: Path) -> str:
    """Does the head of the file say what SQLite would not open, or not write to?"""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES or not is_database(head):
        return ""  # that is found out anyway
    is_sound = head[18] in _FILE_FORMATS and head[19] in _FILE_FORMATS and head[44:48] in _SCHEMA_FORMATS
    return "" if is_sound else "its head was changed"


def version_problem(path: Path, found: int, present: int) -> str:
    """Is the version ``found`` in the file one that no program wrote?

    The pages kept beside it show that; when they are of a newer program than this (``present``), so is the file.  They
    are copied again after a migration, so a file between them and the present was brought there by this program.
    """
    kept = schema_pages.version(_schema_kept(path))
    is_written = kept is None or kept > present or kept <= found <= present
    return "" if is_written else f"its version was changed from {kept} to {found}"


def is_strange(path: Path, error: Exception) -> bool:
    """Not a database, and nothing beside it shows that it ever was one of ours: it must not be replaced silently."""
    return isinstance(error, apsw.NotADBError) and not _schema_kept(path).exists()


def _mend(aside: Path, kept: Path, access: FileAccess) -> None:
    """Make the file one that SQLite opens: with all of its log, and with the pages that name its tables."""
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
        # Of a file that is beyond reading nothing is taken over.
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
    """Take over every row that can be read.

    ``key`` is the integer the table is ordered by; ``fixed``: a column before it, and of which value rows are taken.
    """
    names = columns(target, table)
    _copy(target, table, names, _walk(source, table, key, fixed, names), replace=replace)


def copy_small(source: apsw.Connection, target: apsw.Connection, table: str) -> None:
    """The same for a table of a few rows in whatever order: from its beginning, and from its end."""
    names = columns(target, table)
    primary = [str(row[1]) for row in rows(target, sql.table_info(table)) if row[5]]
    for backwards in (False, True):
        statement = sql.in_order(table, names, primary, backwards=backwards)
        _copy(target, table, names, _back(source, statement, ()))


def lacks(connection: apsw.Connection, model: apsw.Connection) -> str:
    """Which table or column of ``model`` is not there; "" when all are."""
    for (table,) in rows(model, sql.TABLES):
        missing = set(columns(model, str(table))) - set(columns(connection, str(table)))
        if missing:
            return f"{table}.{min(missing)} is missing"
    return ""


def is_schema_changed(connection: apsw.Connection, model: Model) -> bool:
    """Are tables and indexes others than a program made?  A statement that fails then is not to blame.

    SQLite has one code for every statement it cannot run, so that only the schema itself shows why.
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
    """Names; none when that cannot be read."""
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
        with contextlib.suppress(apsw.ConstraintError, apsw.MismatchError):  # a value no such row can have
            target.execute(insert, row)
        if number % COMMIT_ROWS == 0:
            target.execute(sql.COMMIT)
            target.execute(sql.BEGIN)
    target.execute(sql.COMMIT)


def _walk(
    source: apsw.Connection, table: str, key: str, fixed: tuple[str, int] | None, names: list[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows by ascending key.  Where a page cannot be read, go on behind it, and from there back down to it."""
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
