"""Delivers the messages that wait for one node: reads its topic, sends what is due, records the position.

One task for each node with waiting messages; none for other nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from fairlead_hub.hub import Hub
from fairlead_hub.inputs import node_queue, submission
from fairlead_hub.inputs.node_queue import NodeQueue, WaitingInput
from fairlead_hub.inputs.submission import InputOutcomes, StoredInput
from fairlead_hub.io.inputs.input_log import InputLog
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent, RemoteError, Temporary
from fairlead_wire.io import logs
from fairlead_wire.link import codec
from fairlead_wire.log_limiter import LogLimiter

RETRY_SECONDS = 1.0
"""Pause after messaging could not be reached."""
PUT_OFF_SECONDS = 5.0
"""Delay if a node answers "not now" without a time."""
PUT_OFF_SECONDS_MIN = 1.0
PUT_OFF_SECONDS_MAX = 300.0
"""Bounds for the delay that a node requests."""
READ_MAX = 2 * node_queue.MESSAGES_MAX
"""Messages read from a topic that others may write to, too."""
SAID_SECONDS = 3600.0
_said = LogLimiter(SAID_SECONDS)
_log = logs.get("hub.inputs")


class InputDelivery:
    """Delivery to one node.  ``wall`` returns seconds since 1970; ``idle`` is called when nothing waits any more."""

    def __init__(
        self,
        node: str,
        *,
        hub: Hub,
        log: InputLog,
        wall: Callable[[], float],
        outcomes: InputOutcomes,
        counts: IoCounts,
        may_send: Callable[[], bool],
        idle: Callable[[], None],
    ) -> None:
        self.node = node
        self.queue = NodeQueue()
        self.session: SessionRef | None = None
        self.coming = 0
        """Messages that are being published: room is reserved for them."""
        self.coming_bytes = 0
        self.held = 0
        """Callers that are about to publish; the task does not end before them."""
        self.loaded = asyncio.Event()
        """Whether the messages that waited before are known."""
        self.changed = asyncio.Event()
        """Set at each change and cleared by whoever waits for one."""
        self._hub, self._input_log, self._wall = hub, log, wall
        self._outcomes, self._counts, self._may_send, self._idle = outcomes, counts, may_send, idle
        self._frames: dict[int, str] = {}
        self._may_be_there: set[str] = set()
        """Ids of messages sent by this hub, or possibly by an earlier one, that have not been answered."""
        self._unread = True
        self._noted = ""
        self._wake = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"inputs of {node}")

    # ---- what happened ----

    def published(self) -> None:
        """There are new messages in the topic."""
        self._unread = True
        self._wake.set()

    def release(self) -> None:
        """A caller has finished publishing."""
        self.held -= 1
        self._wake.set()

    def session_opened(self, session: SessionRef) -> None:
        """The node has connected."""
        self._leave()
        self.session = session if session.takes_inputs else None
        if not session.takes_inputs and len(self.queue):
            times = _said.due(("old", self.node), asyncio.get_running_loop().time())
            if times is not None:
                remedy = "upgrade the agent; the messages wait until they expire"
                _log.warning("inputs_wait_for_agent", node=self.node, agent=session.agent, remedy=remedy)
        self._wake.set()

    def session_closed(self, session: SessionRef) -> None:
        """The node has disconnected."""
        if self.session is session:
            self._leave()
            self._wake.set()

    def answered(self, answer: message.Ack | message.Nack) -> bool:
        """Handle the node's answer.  Returns False if it is not about a message for a module."""
        id = self._frames.pop(answer.parent_id, None)
        if id is None:
            return False
        if isinstance(answer, message.Ack):
            self._end(id, "delivered")
        elif answer.permanent:
            self._end(id, "refused", f"{answer.code}: {answer.reason}")
        else:
            self._counts.inputs["put_off"] += 1
            self.queue.put_off(id, self._wall() + _put_off_seconds(answer.retry_after))
        self._wake.set()
        return True

    # ---- the task ----

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            seconds: float | None = None
            try:
                await self._step()
                until = self.queue.next_time(self._wall())
                seconds = None if until is None else max(0.05, until - self._wall())
            except (Temporary, Permanent, RemoteError) as error:
                if (times := _said.due("log", asyncio.get_running_loop().time())) is not None:
                    _log.warning("inputs_delayed", node=self.node, reason=str(error), times=times)
                seconds = RETRY_SECONDS
            self.changed.set()
            self.changed = asyncio.Event()
            if not len(self.queue) and not self.held and not self.coming and not self._unread and seconds is None:
                self._idle()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _step(self) -> None:
        if not self.loaded.is_set():
            self.queue.read_upto = self._noted = await self._input_log.reached(self.node)
        while self._unread and len(self.queue) < READ_MAX:
            self._unread = False
            while len(self.queue) < READ_MAX and await self._read():
                self._expire()
            self._unread = self._unread or len(self.queue) >= READ_MAX
        self.loaded.set()
        self._expire()
        while self.session is not None and (due := self.queue.due(self._wall())):
            for each in due:
                await self._send(each)
            self._expire()
        while (reached := self.queue.checkpoint) != self._noted:
            await self._input_log.note(self.node, reached)
            self._noted = reached

    async def _read(self) -> bool:
        """Read one page.  Returns False if there was none."""
        try:
            found = await self._input_log.read(self.node, self.queue.read_upto)
        except BaseException:
            self._unread = True
            raise
        for position, payload in found:
            before, self.queue.read_upto = self.queue.read_upto, position
            try:
                kept = submission.read(payload, self.node)
            except Malformed as error:
                _log.warning("input_unreadable", node=self.node, position=position, reason=str(error)[:200])
                continue
            place = (kept.module, kept.input)
            if not self.loaded.is_set():
                self._may_be_there.add(kept.id)
            self.queue.add(
                WaitingInput(
                    id=kept.id,
                    position=position,
                    before=before,
                    place=place,
                    expires=kept.expires,
                    size=len(payload),
                )
            )
        return bool(found)

    def _expire(self) -> None:
        for each in self.queue.expired(self._wall()):
            self._note(each.id, "expired", submission.MAY_BE_THERE if each.id in self._may_be_there else "")

    async def _send(self, waiting: WaitingInput) -> None:
        payload = await self._input_log.one(self.node, waiting.position)
        session = self.session
        if session is None or not self._hub.sessions.is_open(session) or not self._may_send():
            self.session = None  # the session is ending
            return
        if payload is None:  # messaging's clock is ahead of ours
            self._end(waiting.id, "expired", submission.MAY_BE_THERE if waiting.id in self._may_be_there else "")
            return
        kept = submission.read(payload, self.node)
        known = self._hub.view.node_uid(self.node)
        if known and kept.uid and known != kept.uid:
            self._end(waiting.id, "refused", "the Node it was sent to is gone; another one has its name now")
            return
        left = kept.expires - self._wall()
        if left <= 0:
            self._end(waiting.id, "expired", submission.MAY_BE_THERE if waiting.id in self._may_be_there else "")
            return
        self.queue.sent(waiting.id)
        self._may_be_there.add(waiting.id)
        make, content = frame(kept, left)
        self._frames[self._hub.sessions.ask(session, make, content)] = waiting.id

    def _leave(self) -> None:
        self.session = None
        self._frames.clear()
        self.queue.session_ended()

    def _end(self, id: str, state: message.InputState | str, reason: str = "") -> None:
        if self.queue.done(id) is not None:
            self._note(id, state, reason)

    def _note(self, id: str, state: message.InputState | str, reason: str = "") -> None:
        self._may_be_there.discard(id)
        self._counts.inputs[state] += 1
        self._outcomes.note(self.node, id, state, reason)  # type: ignore[arg-type]
        if state == "refused":
            _log.warning("input_refused", node=self.node, message=id, reason=reason)


def _put_off_seconds(said: float | None) -> float:
    return min(max(said or PUT_OFF_SECONDS, PUT_OFF_SECONDS_MIN), PUT_OFF_SECONDS_MAX)


def frame(kept: StoredInput, seconds_left: float) -> tuple[Callable[[int], message.Input], bytes]:
    """What the node receives: its header for a given id, and its content."""
    encoding, content = codec.pack(bytes(kept.message))
    ttl = min(seconds_left, float(message.INPUT_TTL_SECONDS_MAX))

    def header(id: int) -> message.Input:
        return message.Input(
            id=id, message=kept.id, module=kept.module, input=kept.input, ttl_seconds=ttl, encoding=encoding
        )

    return header, content
