"""``GET /v1/backup``: everything that is stored, as one file, while the service runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import Final

from aiohttp import web

from fairlead_messaging.api.errors import MessagingError
from fairlead_messaging.api.headers import BACKUP
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import backup
from fairlead_messaging.server.io.rest.authorization import Everywhere
from fairlead_messaging.server.io.rest.http import BROKER, METRICS, caller_of
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_wire import distribution
from fairlead_wire.io import logs

PIECE_SECONDS_MAX: Final = 60.0
"""How long a reader may take for a piece: meanwhile the snapshot keeps disk space from being freed."""

_log = logs.get("messaging.backup")


async def take(request: web.Request) -> web.StreamResponse:
    """Send the rows of one snapshot.  Raises: Forbidden; Unavailable before the first piece.

    A later failure cuts the answer short.  It then lacks the end frame, so it cannot be mistaken for a backup.
    """
    broker, granted = request.app[BROKER], Everywhere(request, Verb.ADMINISTER, Verb.CONSUME)
    taken_ms = broker.now_ms()

    def pieces(snapshot: Snapshot) -> Generator[tuple[bytes, int]]:
        yield from backup.encode(
            snapshot.scan(*keys.EVERYTHING),
            program=distribution.version(),
            service=broker.service_id,
            taken_ms=taken_ms,
        )

    response = web.StreamResponse(headers={"Content-Type": BACKUP})
    if request.method == "HEAD":
        return response
    rows = size = 0
    try:
        async with contextlib.aclosing(broker.copy(pieces)) as made:
            async for data, held in made:
                if not response.prepared:
                    await response.prepare(request)
                await granted.check()
                async with asyncio.timeout(PIECE_SECONDS_MAX):
                    await response.write(data)
                rows, size = rows + held, size + len(data)
        await response.write_eof()
    except (TimeoutError, MessagingError) as error:
        if not response.prepared:
            raise
        _log.warning("backup_cut_short", rows=rows, reason=str(error) or "the reader took too long")
        if request.transport is not None:
            request.transport.abort()  # a regular end would make the answer look complete to HTTP
        raise ConnectionResetError("the backup was cut short") from None
    request.app[METRICS].backup_taken.set(taken_ms / 1000)
    _log.info(
        "backup_taken",
        rows=rows,
        bytes=size,
        seconds=(broker.now_ms() - taken_ms) / 1000,
        caller=caller_of(request).shown,
    )
    return response
