"""Finds out whether a message is in the table, or waits for it; what is found is committed.

Each file is read once. While waiting, only the newest log entry and new files are read.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

from fairlead_ingest.io.table.files import filtered
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place

POLL_SECONDS = 0.2
_DAY_CHARS = len("2026-11-20")
_COLUMNS = ["id", "node", "_id", "_published_at", "_ingested_at", "_batch"]


class TableReceipts:
    """Searches one table for one message.

    ``node``: only from this node, None for any. ``since``: published on this date or later, None for any.
    """

    def __init__(
        self,
        table_format: TableFormat,
        table: Place,
        message_id: str,
        node: str | None = None,
        since: datetime.date | None = None,
    ) -> None:
        self._table_format = table_format
        self._table = table
        self._filters = [("id", "=", message_id), *([("node", "=", node)] if node is not None else [])]
        self._since = "" if since is None else since.isoformat()
        self._seen: set[str] = set()
        self._version: int | None = None

    def find(self) -> dict[str, Any] | None:
        """The row's lineage as plain values, None if the message is not in the table yet."""
        version = self._table_format.version(self._table)
        if version == self._version:
            return None
        self._version = version
        # Newest first, because clients usually ask about a recent message.
        for path, topic in reversed(self._table_format.files(self._table)):
            if path in self._seen or path.rpartition("/_date=")[2][:_DAY_CHARS] < self._since:
                continue
            self._seen.add(path)
            rows = filtered(self._table, path, _COLUMNS, self._filters)
            if rows.num_rows:
                found = rows.to_pylist()[0]
                moments = {name: found[name].isoformat() for name in ("_published_at", "_ingested_at")}
                return {**found, **moments, "_topic": topic}
        return None

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """As ``find``, repeated until the message is there or ``seconds`` have passed."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.find()
            if found is not None or time.monotonic() >= deadline:
                return found
            time.sleep(POLL_SECONDS)
