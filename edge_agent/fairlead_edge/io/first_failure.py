"""Waits for the end of the agent: it is asked to stop, or one of its loops fails."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead_edge.errors import StoreFailed


async def first_failure(tasks: list[asyncio.Task[Any]], stop: asyncio.Task[Any]) -> None:
    """Until ``stop`` is done; raises what a task raised.  A task may end: the hub can refuse the link for good."""
    running = set(tasks)
    while not stop.done():
        done, _ = await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            running.discard(task)
            if (error := task.exception()) is not None:
                raise _innermost(error)


def _innermost(error: BaseException) -> BaseException:
    """The failure itself, out of the groups it came in: of several, the one that is the disk's."""
    while isinstance(error, BaseExceptionGroup):
        failed = error.subgroup(StoreFailed) or error
        error = failed.exceptions[0]
    return error
