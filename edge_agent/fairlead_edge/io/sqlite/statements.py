"""SQL for all stores: transactions, pragmas, and the statements of a salvage.

Names of tables and columns come from the schemas of this program, never from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# ---- transactions --------------------------------------------------------------------------------------------------

BEGIN: Final = "BEGIN"
"""Begin a reader's snapshot."""
BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
"""Begin a transaction of the writer."""
COMMIT: Final = "COMMIT"
"""Durable when it returns."""
ROLLBACK: Final = "ROLLBACK"
"""Undo all of it."""
BEGIN_JOB: Final = "SAVEPOINT job"
"""Begin one job of a group commit."""
END_JOB: Final = "RELEASE job"
"""Keep the changes of the job in the transaction."""
UNDO_JOB: Final = "ROLLBACK TO job"
"""Undo this job alone."""

# ---- pragmas -------------------------------------------------------------------------------------------------------

USER_VERSION: Final = "PRAGMA user_version"
"""The version of the tables."""
INTEGRITY_CHECK: Final = "PRAGMA integrity_check(1)"
"""``ok``, or the first problem found."""
CHECKPOINT_FULL: Final = "PRAGMA wal_checkpoint(FULL)"
"""Write the log into the file."""
CHECKPOINT_RESTART: Final = "PRAGMA wal_checkpoint(RESTART)"
"""Write the log into the file, and reuse the log from its beginning."""
FREELIST_COUNT: Final = "PRAGMA freelist_count"
"""Unused pages."""
PAGE_COUNT: Final = "PRAGMA page_count"
"""Pages of the file."""
PAGE_SIZE: Final = "PRAGMA page_size"
"""Bytes of a page."""
TEMPORARY_IN_MEMORY: Final = "PRAGMA temp_store=MEMORY"
"""Queries sort in memory, not in files."""
WRITABLE_SCHEMA: Final = "PRAGMA writable_schema=ON"
"""Without it, nothing can be read from a file whose end is missing."""
WRITER_SETTINGS: Final = (
    "PRAGMA auto_vacuum=INCREMENTAL",  # takes effect in a new file; lets unused pages be returned to the file system
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=500",  # pages of 4 KiB: short enough for callers that wait meanwhile
    "PRAGMA journal_size_limit=16777216",
    "PRAGMA temp_store=MEMORY",
)
"""The settings of a store's writer."""
SALVAGE_SETTINGS: Final = (
    "PRAGMA auto_vacuum=INCREMENTAL",
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
)
"""The settings for filling a new file, which is flushed once at the end."""

# ---- the schema ----------------------------------------------------------------------------------------------------

ANYTHING: Final = "SELECT 1 FROM sqlite_schema LIMIT 1"
"""Returns a row if the file has any table."""
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table'"
"""The names of the tables."""
SCHEMA: Final = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
"""Tables and indexes, as they were made."""
SCHEMA_PAGES: Final = "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'"
"""The pages that name the tables."""


def set_user_version(version: int) -> str:
    """Set the version of the tables."""
    return f"PRAGMA user_version={version}"


def incremental_vacuum(pages: int) -> str:
    """Return this many unused pages to the file system."""
    return f"PRAGMA incremental_vacuum({pages})"


def drop_table(table: str) -> str:
    """Drop a table."""
    return f"DROP TABLE {table}"


def table_info(table: str) -> str:
    """One row for each column: number, name, type, not null, default, place in the primary key."""
    return f"PRAGMA table_info({table})"


# ---- salvage -------------------------------------------------------------------------------------------------------


def insert(table: str, columns: Sequence[str], *, replace: bool) -> str:
    """Insert a row; an existing one stays, unless ``replace``."""
    places = ", ".join("?" * len(columns))
    return f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO {table}({', '.join(columns)}) VALUES({places})"


def in_order(table: str, columns: Sequence[str], keys: Sequence[str], *, backwards: bool) -> str:
    """All rows by their keys."""
    order = ", ".join(f"{key} DESC" if backwards else key for key in keys)
    return f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"


def _walk(table: str, columns: Sequence[str], key: str, fixed: str) -> str:
    where = f"{fixed} = ? AND " if fixed else ""
    return f"SELECT {key}, {', '.join(columns)} FROM {table} WHERE {where}{key}"


def rows_from(table: str, columns: Sequence[str], key: str, fixed: str) -> str:
    """Rows from a key upwards, with the key as first column; ``fixed``: only rows with one value of this column."""
    return f"{_walk(table, columns, key, fixed)} >= ? ORDER BY {key}"


def rows_back_to(table: str, columns: Sequence[str], key: str, fixed: str) -> str:
    """Rows from the last one down to a key."""
    return f"{_walk(table, columns, key, fixed)} >= ? ORDER BY {key} DESC"


def rows_between(table: str, columns: Sequence[str], key: str, fixed: str) -> str:
    """Rows between two keys, downwards."""
    return f"{_walk(table, columns, key, fixed)} BETWEEN ? AND ? ORDER BY {key} DESC"
