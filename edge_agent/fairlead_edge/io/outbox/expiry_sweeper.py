"""Gives back the room of what has expired: now and then, and at once when a producer finds the store full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_edge.errors import StoreFull
from fairlead_edge.outbox.outbox import Outbox
from fairlead_wire.io import logs

_log = logs.get("edge.expiry")


class ExpirySweeper:
    """``interval_seconds`` between rounds (the first at the start); ``entire``: expired messages are looked for
    everywhere, not only at the heads of the queues.  That costs a look at the expiry index, and frees the room of
    short-lived messages behind long-lived ones.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        clock: Callable[[], float],
        interval_seconds: float,
        entire: bool,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._entire = entire

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.sweep(entire=self._entire)
            await asyncio.sleep(self._interval_seconds)

    async def sweep(self, *, entire: bool) -> int:
        """One round, in small steps so that producers get their turn; returns how many went.

        Afterwards a file that is mostly unused is made smaller.
        """
        swept = 0
        try:
            while count := await self._outbox.sweep(now=self._clock(), entire=entire):
                swept += count
            while await self._outbox.give_back():
                pass
        except StoreFull as error:
            _log.warning("sweep_delayed", reason=str(error))
        if swept:
            _log.info("expired_swept", messages=swept)
        return swept
