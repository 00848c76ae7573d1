"""The files of a table's newest version by size, and how long opening one takes here and now."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

from fairlead_ingest.io.table import files, object_store, ranged
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.report import facts
from fairlead_ingest.report.facts import FileLayout, FileSize
from fairlead_ingest.table.store_path import Place, StorePath

OPENED_MAX = 20
"""As many are opened to measure it: the newest, which a query asks for most."""
_DATE_CHARS = len("2026-11-20")


def of(table_format: TableFormat, table: Place, clock: Callable[[], float]) -> FileLayout:
    """``clock`` in seconds.  Raises ``OSError``, ``Wait``, ``Stop``."""
    named = table_format.files(table)
    sizes = object_store.sizes(table) if isinstance(table, StorePath) and named else {}
    found, there, took = [], [], []
    for path, topic in named:
        size = sizes.get(path) if isinstance(table, StorePath) else _on_disk(table, path)
        # A file that was vacuumed since the log was read is no part of the newest version either.
        if size is not None:
            there.append(path)
            found.append(FileSize(topic=topic, date=path.rpartition("/_date=")[2][:_DATE_CHARS], bytes=size))
    for path in there[-OPENED_MAX:]:
        began = clock()
        try:
            _read_footer(table, path)
        except FileNotFoundError:
            continue
        took.append(clock() - began)
    return facts.file_layout(found, open_seconds=statistics.median(took) if took else None, opened=len(took))


def _read_footer(table: Place, path: str) -> None:
    """What opening costs; of a store it is a request, however large the file."""
    if isinstance(table, StorePath):
        ranged.read_footer(table / path)
    else:
        files.open_parquet(table, path).metadata  # noqa: B018 - read when it is asked for


def _on_disk(table: Path, path: str) -> int | None:
    try:
        return os.stat(table / path).st_size
    except OSError:
        return None
