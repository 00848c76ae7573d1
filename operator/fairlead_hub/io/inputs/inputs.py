"""Messages from the cloud to modules: accepts them from callers, and reports their state.

send  ─▶ messaging (then the caller is answered ``accepted``) ─▶ Delivery of the node
      └▶ without messaging: straight to the node (``delivered``), or refused where it is away
    state ─▶ waiting messages, what this hub has seen, and what the node says
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Sequence

from fairlead_hub.http_operations import MessageState
from fairlead_hub.hub import Hub
from fairlead_hub.inputs import node_queue, submission
from fairlead_hub.inputs.submission import Address, InputOutcomes, InputSubmission, StoredInput
from fairlead_hub.io.inputs import delivery
from fairlead_hub.io.inputs.delivery import InputDelivery
from fairlead_hub.io.inputs.input_log import InputLog, InputLogClient, NodeAnswers, Unanswered, topic_of
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.errors import Permanent, RemoteError, Temporary
from fairlead_wire.io import logs

NODES_MAX = 20_000
"""Nodes with waiting messages; a caller for another node is asked to retry later."""
LOAD_SECONDS = 10.0
DIRECT_SECONDS = 20.0
"""How long a caller waits for the node if nothing stores the message meanwhile."""
LOOK_AGAIN_SECONDS = 1.0
"""Poll interval while a caller waits for the state to change at the node."""
SCAN_RETRY_SECONDS = 5.0
SCAN_PAUSE_SECONDS = 0.02
SCANS_AT_ONCE = 16
STATE_ASKERS_MAX = 256
"""Callers that may wait for a state at once; further ones get the current state."""
_log = logs.get("hub.inputs")


class NotNow(Temporary):
    """Retry later: ``code`` says why, ``status`` is the HTTP status."""

    def __init__(self, code: str, text: str, *, status: int = 503, retry_after_seconds: float = 5.0) -> None:
        super().__init__(text, retry_after_seconds=retry_after_seconds)
        self.code, self.status = code, status


class InputService:
    """Serves all nodes."""

    def __init__(
        self,
        hub: Hub,
        messaging: InputLogClient | None,
        *,
        counts: IoCounts,
        may_send: Callable[[], bool],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._hub, self._counts, self._may_send, self._wall = hub, counts, may_send, wall
        self._input_log = InputLog(messaging) if messaging is not None else None
        self._deliveries: dict[str, InputDelivery] = {}
        self._outcomes = InputOutcomes()
        self._answers = NodeAnswers(hub)
        self._direct: dict[tuple[SessionRef, int], asyncio.Future[message.Ack | message.Nack]] = {}
        self._askers = 0

    @property
    def waiting(self) -> int:
        """Messages that are accepted and not delivered, for all nodes."""
        return sum(len(each.queue) for each in self._deliveries.values())

    # ---- from callers ----

    async def send(
        self, to: Address, messages: Sequence[InputSubmission], *, ttl: float, key: str | None
    ) -> list[MessageState]:
        """Accept all or none.  Raises ``submission.InputRefused``, ``NotNow``, and what messaging raises."""
        submission.check_names(to.module, to.input)
        ids = submission.ids(to.node, to.module, to.input, key, len(messages), lambda: secrets.token_hex(16))
        now = self._wall()
        at = WallClock.text_of(int(now))
        every = [
            submission.kept(each, to, id=id, ttl=ttl, now=now, at=at) for each, id in zip(messages, ids, strict=True)
        ]
        session = self._hub.sessions.of_node(to.node)
        if session is not None and not session.takes_inputs:
            raise NotNow(
                "agent_too_old",
                f"the agent of node {to.node} ({session.agent}) does not support messages from the cloud: upgrade it",
                status=409,
            )
        if self._input_log is None:
            return [await self._hand_over(session, each) for each in every]
        await self._keep(self._input_log, to.node, every)
        self._counts.inputs["accepted"] += len(every)
        for id in ids:  # until the topic has been read
            if self._outcomes.of(to.node, id) is None:
                self._outcomes.note(to.node, id, "accepted")
        return [MessageState(id=id, state="accepted") for id in ids]

    async def _keep(self, log: InputLog, node: str, every: Sequence[StoredInput]) -> None:
        if topic_of(node) is None:
            raise submission.InputRefused("messages can be sent to nodes of up to 190 characters", code="bad_node")
        found = self._delivery_for(node)
        found.held += 1  # it ends when nothing waits, and would miss what is being published
        try:
            await self._publish(log, found, every)
        finally:
            found.release()

    async def _publish(self, log: InputLog, found: InputDelivery, every: Sequence[StoredInput]) -> None:
        await self._loaded(found)
        node = found.node
        new = [each for each in every if found.queue.get(each.id) is None]
        payloads = [submission.encode(each) for each in new]
        size = sum(map(len, payloads))
        if not payloads:
            return  # sent before with this key, and still waiting
        if not found.queue.has_room(found.coming + len(new), found.coming_bytes + size):
            self._counts.inputs["too_many"] += 1
            raise NotNow(
                "too_many_waiting",
                f"{len(found.queue)} messages ({found.queue.bytes} bytes) wait for node {node}; at most"
                f" {node_queue.MESSAGES_MAX} messages and {node_queue.BYTES_MAX} bytes do",
                status=429,
            )
        found.coming += len(new)
        found.coming_bytes += size
        for each in new:
            self._outcomes.begin_again(node, each.id)
        # A caller that disconnects must not prevent delivery of what was stored.
        await asyncio.shield(asyncio.ensure_future(self._append(log, found, payloads, len(new), size)))
        if not self._may_send():
            # A hub that took over may have read the topic before the message was in it.
            raise NotNow("not_the_hub", "another hub may have taken over; send it again with the same Idempotency-Key")

    async def _append(
        self, log: InputLog, found: InputDelivery, payloads: Sequence[bytes], count: int, size: int
    ) -> None:
        try:
            await log.append(found.node, payloads)
        finally:
            found.coming -= count
            found.coming_bytes -= size
            # Also after a lost answer: the message may be stored.
            self._delivery(found.node).published()

    def _delivery_for(self, node: str) -> InputDelivery:
        """Raises ``NotNow``."""
        if node not in self._deliveries and len(self._deliveries) >= NODES_MAX:
            raise NotNow("too_many_waiting", f"messages wait for {NODES_MAX} nodes", status=429)
        return self._delivery(node)

    async def _loaded(self, found: InputDelivery) -> InputDelivery:
        """Raises ``NotNow``."""
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await found.loaded.wait()
        except TimeoutError:
            raise NotNow(
                "messaging_unavailable", "messaging does not answer which messages wait for the node"
            ) from None
        return found

    async def _hand_over(self, session: SessionRef | None, kept: StoredInput) -> MessageState:
        """Without messaging: the node stores the message, or nothing does."""
        if session is None or not self._hub.sessions.is_open(session):
            raise NotNow(
                "node_away",
                f"node {kept.node} is away, and this hub has nothing to keep the message in: set messaging_url, or"
                " send it again when the node is connected",
            )
        if sum(each is session for each, _ in self._direct) >= message.INPUT_WINDOW:
            raise NotNow(
                "too_many_waiting", f"{message.INPUT_WINDOW} messages to the node are not acknowledged yet", status=429
            )
        make, content = delivery.frame(kept, kept.expires - self._wall())
        id = self._hub.sessions.ask(session, make, content)
        answer = self._direct[session, id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(min(DIRECT_SECONDS, kept.expires - self._wall())):
                found = await answer
        except TimeoutError:
            raise NotNow("unanswered", _UNANSWERED.format(node=kept.node)) from None
        finally:
            self._direct.pop((session, id), None)
        if isinstance(found, message.Ack):
            self._counts.inputs["accepted"] += 1
            self._counts.inputs["delivered"] += 1
            self._outcomes.note(kept.node, kept.id, "delivered")
            return MessageState(id=kept.id, state="delivered")
        if found.permanent:
            raise submission.InputRefused(found.reason, code=found.code)
        raise NotNow(found.code, found.reason, retry_after_seconds=found.retry_after or 5.0)

    async def state(self, node: str, id: str, *, until: frozenset[str], wait_seconds: float) -> MessageState | None:
        """Its state, as soon as that is one of ``until``, or after this time; None if nothing is known of it.

        Raises ``NotNow`` if only the node knows the state, and it is away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (wait_seconds if self._askers < STATE_ASKERS_MAX else 0.0)
        self._askers += 1
        try:
            while True:
                found = await self._state(node, id)
                left = deadline - loop.time()
                if found is None or found.state in until or found.state in submission.FINAL or left <= 0:
                    return found
                await self._changed(node, min(left, LOOK_AGAIN_SECONDS))
        finally:
            self._askers -= 1

    async def _state(self, node: str, id: str) -> MessageState | None:
        if self._input_log is not None and topic_of(node) is not None:
            waits = (await self._loaded(self._delivery_for(node))).queue.get(id)
            if waits is not None:
                left = round(max(0.0, waits.expires - self._wall()), 3)
                return MessageState(id=id, state="accepted", reason=self._why(node), expires_in_seconds=left)
        seen = self._outcomes.of(node, id)
        if seen is not None and seen[0] in submission.FINAL and seen[1] != submission.MAY_BE_THERE:
            return MessageState(id=id, state=seen[0], reason=seen[1])
        session = self._hub.sessions.of_node(node)
        if session is not None and session.takes_inputs:
            try:
                state = await self._answers.ask(session, id)
            except Unanswered:
                session = None
            else:
                if state is not None:
                    self._outcomes.note(node, id, state)
                    return MessageState(id=id, state=state)
        if seen is not None and seen[0] == "accepted":
            return MessageState(id=id, state="accepted", reason=self._why(node))
        if session is None and (seen is None or seen[0] in submission.FINAL):
            raise NotNow("node_away", f"node {node} knows the state of the message, and is away or does not answer")
        if seen is not None:
            away = "" if session is not None else "last state seen by this hub; the node is away"
            return MessageState(id=id, state=seen[0], reason=seen[1] or away)
        return None

    def _why(self, node: str) -> str:
        session = self._hub.sessions.of_node(node)
        if session is None:
            return "the node is away"
        return "" if session.takes_inputs else "the node's agent does not support messages from the cloud: upgrade it"

    async def _changed(self, node: str, seconds: float) -> None:
        found = self._deliveries.get(node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (found.changed if found is not None else asyncio.Event()).wait()

    # ---- from the link ----

    def opened(self, session: SessionRef) -> None:
        """A node has connected."""
        found = self._deliveries.get(session.node)
        if found is not None:
            found.session_opened(session)

    def forget(self, session: SessionRef) -> None:
        """A node's session ended."""
        found = self._deliveries.get(session.node)
        if found is not None:
            found.session_closed(session)
        self._answers.forget(session)
        for (of, _), answer in list(self._direct.items()):
            if of is session and not answer.done():
                answer.set_exception(NotNow("unanswered", _UNANSWERED.format(node=session.node)))

    def received_states(self, session: SessionRef, header: message.InputStates, content: bytes) -> None:
        """Handle the message states a node was asked for.  Raises ``Malformed``."""
        self._answers.received_states(session, header, content)

    def answered(self, session: SessionRef, header: message.Ack | message.Nack, content: bytes) -> None:
        """Handle a node's answer to a message for a module."""
        waiting = self._direct.get((session, header.parent_id))
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(header)
            return
        found = self._deliveries.get(session.node)
        if found is not None and found.session is session:
            found.answered(header)

    # ---- the start ----

    async def run(self) -> None:
        """Find the messages that waited when this hub started, until cancelled.  An idle ``InputDelivery`` ends."""
        log = self._input_log
        while log is not None:
            try:
                for node in await log.nodes():
                    while self._is_busy():  # noqa: ASYNC110
                        await asyncio.sleep(SCAN_PAUSE_SECONDS)
                    if topic_of(node) is not None:
                        self._delivery(node)
                break
            except (Temporary, Permanent, RemoteError) as error:
                _log.warning("inputs_delayed", reason=str(error))
                await asyncio.sleep(SCAN_RETRY_SECONDS)
        await asyncio.Event().wait()

    def _is_busy(self) -> bool:
        loading = sum(not each.loaded.is_set() for each in self._deliveries.values())
        return loading >= SCANS_AT_ONCE or len(self._deliveries) >= NODES_MAX

    def close(self) -> None:
        """Stop delivering."""
        for each in self._deliveries.values():
            each.task.cancel()

    def _delivery(self, node: str) -> InputDelivery:
        found = self._deliveries.get(node)
        if found is None:
            assert self._input_log is not None

            def idle() -> None:
                self._deliveries.pop(node, None)

            found = self._deliveries[node] = InputDelivery(
                node,
                hub=self._hub,
                log=self._input_log,
                wall=self._wall,
                outcomes=self._outcomes,
                counts=self._counts,
                may_send=self._may_send,
                idle=idle,
            )
            session = self._hub.sessions.of_node(node)
            if session is not None:
                found.session_opened(session)
            found.task.add_done_callback(lambda task: self._ended(node, task))
        return found

    def _ended(self, node: str, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("inputs_error", node=node, **logs.describe_error(error), remedy="report it; it is begun anew")
        self._deliveries.pop(node, None)
        asyncio.get_running_loop().call_later(SCAN_RETRY_SECONDS, self._delivery, node)


_UNANSWERED = (
    "node {node} went away before it answered, and whether it has the message is not known: send it again with the same"
    " Idempotency-Key"
)
