"""Messages from the hub for modules, in one connection: each is stored by a separate task, and answered.

InputReceived   ─take──▶ store ─▶ ack, nack
InputStatesRequested ─states▶ store ─▶ states

A message that was given to the store is queued even if the connection is gone by then: its module gets it, and when the
hub sends it again, the answer is that it is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from fairlead_edge.objects import session_events
from fairlead_edge.objects.session import EdgeSession
from fairlead_wire import message
from fairlead_wire.errors import Malformed

AT_ONCE_MAX: Final = 4 * message.INPUT_WINDOW
"""More than a correct hub has open: ``INPUT_WINDOW`` messages and one question."""


class InputStore(Protocol):
    """The store of messages for modules; ``io.outbox.inputs.Inputs`` implements it."""

    async def take(self, header: message.Input, content: bytes) -> message.Ack | message.Nack:
        """Store a message; an ack means that it is durable.  Raises ``StoreFailed``."""

    async def states(self, ids: Sequence[str]) -> bytes:
        """How far these messages are, as a JSON array of ``message.InputReached``."""


class ModuleInputs:
    """The inputs of one connection.  ``perform`` carries out effects; ``failed`` gets errors of the store and bugs."""

    def __init__(
        self,
        inputs: InputStore | None,
        core: EdgeSession,
        *,
        perform: Callable[[session_events.Effect], None],
        failed: Callable[[BaseException], None],
        counters: Counter[str],
    ) -> None:
        self._inputs, self._core, self._perform, self._failed = inputs, core, perform, failed
        self._counters = counters
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, effect: session_events.InputReceived | session_events.InputStatesRequested) -> None:
        """Start handling ``effect``; the answer is sent later."""
        if len(self._tasks) >= AT_ONCE_MAX:
            self._failed(Malformed(f"the hub sent more than {AT_ONCE_MAX} messages for modules at once"))
            return
        match effect:
            case session_events.InputReceived():
                self._work(self._take(effect.header, effect.content))
            case session_events.InputStatesRequested():
                self._work(self._send_states(effect.header))

    def _work(self, asked: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(asked)
        self._tasks.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _take(self, header: message.Input, content: bytes) -> None:
        if self._inputs is None:
            reason = "this agent has no store for messages of modules"
            answer: message.Ack | message.Nack = message.Nack(parent_id=header.id, code="no_store", reason=reason)
        else:
            answer = await self._inputs.take(header, content)
        self._counters["inputs_taken" if isinstance(answer, message.Ack) else "inputs_refused"] += 1
        self._send(self._core.answer_input(answer, asyncio.get_running_loop().time()))

    async def _send_states(self, header: message.AskInputs) -> None:
        states = b"[]" if self._inputs is None else await self._inputs.states(header.messages)
        self._send(self._core.report_inputs(header.id, states, asyncio.get_running_loop().time()))

    def _send(self, wanted: list[session_events.Effect]) -> None:
        for effect in wanted:
            self._perform(effect)
