"""Entries of a Delta log, one by one: a small file, or one request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.delta.store_log import DIGITS, LOG
from fairlead_ingest.latest import row_changes
from fairlead_ingest.latest.row_changes import ChangeEntry
from fairlead_ingest.table.store_path import Place


def entry(table: Place, version: int) -> ChangeEntry | None:
    """None where the log was cut. Raises ``Stop``, ``Wait``."""
    content = _content(table, version)
    return None if content is None else row_changes.parse(content, f"{table}, version {version}")


def stamp(table: Place, version: int) -> str | None:
    """A check sum of the entry, None where the log was cut. Raises ``Stop``, ``Wait``."""
    content = _content(table, version)
    return None if content is None else row_changes.stamp(content)


def backwards(table: Place, version: int) -> Iterator[ChangeEntry]:
    """From ``version`` back, as far as the log goes. Raises ``Stop``, ``Wait``."""
    for each in range(version, -1, -1):
        found = entry(table, each)
        if found is None:
            return
        yield found


def _content(table: Place, version: int) -> bytes | None:
    name = f"{version:0{DIGITS}}.json"
    if isinstance(table, Path):
        try:
            return (table / LOG / name).read_bytes()
        except FileNotFoundError:
            return None
    try:
        return object_store.read(table / LOG / name)
    except errors.Stop as error:
        if error.code == errors.TABLE_UNFIT:
            return None
        raise
