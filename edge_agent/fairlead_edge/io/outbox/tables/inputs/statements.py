"""The statements of this room, by name."""

from __future__ import annotations

from typing import Final

KNOWN: Final = "SELECT id, queue, offset, expires, state, checksum FROM inputs WHERE id = ?"
INSERT: Final = "INSERT OR REPLACE INTO inputs(id, queue, offset, expires, state, checksum) VALUES(?, ?, ?, ?, ?, ?)"
AT: Final = """
    SELECT id, queue, offset, expires, state, checksum FROM inputs
    WHERE queue = ? AND offset IN (SELECT value FROM json_each(?))
    """
CHANGE: Final = "UPDATE inputs SET state = ?, checksum = ? WHERE id = ?"
FORGET: Final = "DELETE FROM inputs WHERE expires < ?"
COUNT: Final = "SELECT count(*) FROM inputs"
ANY_OF_QUEUE: Final = "SELECT 1 FROM inputs WHERE queue = ? LIMIT 1"
WAITS: Final = "SELECT 1 FROM references_ WHERE queue = ? AND offset = ?"
END_OF_QUEUE: Final = "SELECT next_offset FROM queues WHERE id = ?"
LEASED: Final = "SELECT 1 FROM attempts WHERE queue = ? AND offset = ? AND leased"
