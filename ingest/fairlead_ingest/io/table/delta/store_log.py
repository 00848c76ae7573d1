"""The newest entries of a Delta log that lies in a store, one small object each, read once.

delta-rs has the same as ``history``; but that asks the store for all of them each time, and holds Python's lock while
it waits, so that with a slow store nothing else in the process goes on, health and stop included.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.table.store_path import StorePath

LOG: Final = "_delta_log"
DIGITS: Final = 20
KEPT: Final = 128
"""Entries remembered; none of them ever changes. One of a job with 500 topics takes 180 KB."""


class _StoreLogLine(msgspec.Struct):
    commit_info: dict[str, Any] | None = msgspec.field(name="commitInfo", default=None)


_line = msgspec.json.Decoder(_StoreLogLine)


def entries(table: StorePath, table_id: str, version: int) -> Iterator[dict[str, Any]]:
    """From ``version`` back, as ``DeltaTable.history`` has them; ends where the log was cut.

    Raises ``Wait``, ``Stop``.
    ``table_id``: of its metadata, so that a table which was made anew is another one.
    """
    for each in range(version, -1, -1):
        found = _entry(table, table_id, each)
        if found is None:
            return
        yield {**found, "version": each}


@lru_cache(maxsize=KEPT)
def _entry(table: StorePath, table_id: str, version: int) -> dict[str, Any] | None:
    path = table / LOG / f"{version:0{DIGITS}}.json"
    try:
        content = object_store.read(path)
    except errors.Stop as error:
        if error.code == errors.TABLE_UNFIT:
            return None
        raise
    try:
        found = next((info for each in content.splitlines() if (info := _line.decode(each).commit_info)), {})
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"{path}: no entry of a Delta log: {error}") from None
    return {"timestamp": 0, "operation": "", **found}
