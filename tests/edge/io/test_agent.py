"""The agent runs until it is asked to stop or a loop fails."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.agent import first_failure


async def _fail(error: BaseException) -> None:
    raise error


async def test_a_loop_that_ends_stops_nothing() -> None:
    stopping = asyncio.Event()
    stop = asyncio.create_task(stopping.wait())
    ended = asyncio.create_task(asyncio.sleep(0))
    waiting = asyncio.create_task(first_failure([ended], stop))
    await ended
    assert not waiting.done()
    stopping.set()
    await waiting


async def test_of_several_failures_the_disk_is_named() -> None:
    """A task group wraps what its tasks raised; the disk is what an operator can mend."""
    stop = asyncio.create_task(asyncio.Event().wait())
    disk = StoreFailed("no room")
    group = ExceptionGroup("loops", [ValueError("a consequence"), ExceptionGroup("inner", [disk])])
    with pytest.raises(StoreFailed, match="no room"):
        await first_failure([asyncio.create_task(_fail(group))], stop)
    stop.cancel()
