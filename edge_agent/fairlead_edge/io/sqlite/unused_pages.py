"""Pages that hold nothing any more, given back to the file system."""

from __future__ import annotations

from typing import Final

import apsw

from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows

UNUSED_PAGES_MIN: Final = 4096
"""16 MiB: less than this is kept for the next outage."""
GIVE_BACK_PAGES: Final = 1024


def give_back(connection: apsw.Connection) -> int:
    """One bounded step, and bytes given back: moving pages wears the disk too, so only when most is unused."""
    [(unused,)] = rows(connection, sql.FREELIST_COUNT)
    [(pages,)] = rows(connection, sql.PAGE_COUNT)
    if unused < UNUSED_PAGES_MIN or 2 * unused < pages:
        return 0
    rows(connection, sql.incremental_vacuum(GIVE_BACK_PAGES))
    [(left,)] = rows(connection, sql.PAGE_COUNT)
    [(page_bytes,)] = rows(connection, sql.PAGE_SIZE)
    given: int = (pages - left) * page_bytes
    return given
