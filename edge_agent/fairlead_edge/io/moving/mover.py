"""The agent's side of a move: delivers to the old hub, refuses producers for the last stretch, and switches.

A node that is taken out of service does the same, but switches to no hub.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal

from fairlead_edge.drain import Drain, Observation
from fairlead_edge.errors import Moving
from fairlead_edge.io.link.link import Link
from fairlead_edge.io.moving.files import OUT_OF_SERVICE, MoveFiles, MoveFilesError, MovePlan, MoveProgress
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox.plan.gate import Why
from fairlead_edge.outbox.plan.status import IN_WORDS
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.io import logs

POLL_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.1
LEAVING: Final = "the node is being taken out of service"

_log = logs.get("edge.move")


class Switched(Exception):
    """The node now belongs to another hub, or to none: everything must be reopened."""


class Mover:
    """Carries out the move that ``files`` ask for."""

    def __init__(
        self,
        files: MoveFiles,
        *,
        link: Link,
        upstream: UpstreamService,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._link = link
        self._upstream = upstream
        self._clock = clock

    async def run(self) -> None:
        """Wait for a plan and carry it out; runs until cancelled.  Raises ``Switched`` and ``StoreFailed``."""
        while True:
            try:
                plan = self._files.plan()
                if plan is not None:
                    await self._move(plan)
            except MoveFilesError as error:
                self._upstream.publisher.open()
                _log.warning("move_delayed", reason=str(error))
            await asyncio.sleep(POLL_SECONDS)

    async def _move(self, plan: MovePlan) -> None:
        _log.info("move_started", hub=plan.until, deadline_seconds=plan.deadline_seconds)
        publisher = self._upstream.publisher
        drain = Drain(deadline_seconds=plan.deadline_seconds, undelivered=plan.undelivered, now=self._clock())
        reported: MoveProgress | None = None
        while self._files.plan() == plan:
            seen = await self._observe()
            step = drain.next_step(seen, self._clock())
            if step == "switch":
                await self._switch(plan, seen)
            if step == "give up":
                publisher.open()
                self._files.give_up(_progress("gave up", seen))
                remedy = f"see `fairlead edge {'leave' if plan.until == OUT_OF_SERVICE else 'move'}`"
                _log.warning("move_given_up", hub=plan.until, waiting=seen.waiting, remedy=remedy)
                return
            if step == "closed":
                publisher.close(Moving(LEAVING) if plan.until == OUT_OF_SERVICE else Moving())
            else:
                publisher.open()
            progress = _progress("close" if step == "closed" else "deliver", seen)
            if progress != reported:
                self._files.write_progress(progress)
                reported = progress
            await asyncio.sleep(LOOK_SECONDS)
        publisher.open()
        _log.info("move_cancelled", hub=plan.until)

    async def _observe(self) -> Observation:
        in_work = self._upstream.publisher.in_work  # read before the queues, or a message could be in neither
        status = await self._upstream.status()
        queues = {
            queue.priority: queue.length for queue in status.queues if queue.endpoint == UPSTREAM and queue.length
        }
        held = {
            priority: each.why for (_, priority), each in self._upstream.pump.held().items() if each.why != Why.RATE
        }
        why = IN_WORDS[next(iter(held.values()))] if queues and queues.keys() <= held.keys() else ""
        return Observation(sum(queues.values()), in_work, self._link.state.state == "connected", why)

    async def _switch(self, plan: MovePlan, seen: Observation) -> None:
        if self._files.plan() != plan:
            return  # it was cancelled just now
        self._files.write_progress(_progress("close", seen))
        self._files.switch()
        _log.info("move_switched", hub=plan.until, taken_along=seen.waiting)
        raise Switched


def _progress(step: Literal["deliver", "close", "gave up"], seen: Observation) -> MoveProgress:
    return MoveProgress(step=step, waiting=seen.waiting, connected=seen.connected, held=seen.held)
