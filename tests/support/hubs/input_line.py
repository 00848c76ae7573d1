"""Messages to modules without sockets: in-memory messaging and node, and hubs that may be replaced at any moment.

line = InputLine()
await line.send("a")                     # through the current hub
line.connect(); await line.settle()      # the node takes what waits
line.new_hub()                           # kill -9: nothing of the old one is left but messaging
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from tests.support.hubs.hub_core import NOON, Core, Edge

from fairlead_hub.http_operations import MessageState
from fairlead_hub.inputs import submission
from fairlead_hub.inputs.submission import Address
from fairlead_hub.io.inputs.inputs import InputService
from fairlead_hub.io.io_counts import IoCounts
from fairlead_messaging.api.responses import Message, Page, Reader
from fairlead_messaging.client.errors import NoAnswer, TopicMissing, Unreachable
from fairlead_wire import message

SETTLE_STEPS = 400


class TwinMessaging:
    """Topics in memory.  ``fails``, for each call: "before" it, "after" it (no response), or "" for never."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Message]] = {}
        self.noted: dict[tuple[str, str], str] = {}
        self.fails: Callable[[str], str] = lambda call: ""
        self._count = 0

    async def _call(self, name: str) -> Callable[[], None]:
        await asyncio.sleep(0)
        how = self.fails(name)
        if how == "before":
            raise Unreachable("no process listens")

        def answer() -> None:
            if how == "after":
                raise NoAnswer("the answer is lost")

        return answer

    def _log(self, name: str) -> list[Message]:
        if name not in self.logs:
            raise TopicMissing("there is no such topic", code="topic_not_found", status=404)
        return self.logs[name]

    async def create_topic(self, namespace: str, name: str, properties: dict[str, Any] | None = None) -> bool:
        answer = await self._call("create_topic")
        self.logs.setdefault(name, [])
        answer()
        return True

    async def topics(self, namespace: str) -> list[str]:
        (await self._call("topics"))()
        return [*self.logs, "events"]

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> object:
        log, answer = self._log(name), await self._call("publish")
        for payload in payloads:
            self._count += 1
            log.append(Message(id=f"{self._count:040x}", payload=payload))
        answer()
        return None

    async def poll(
        self, namespace: str, name: str, *, start_from: str | None = None, inclusive: bool = True, limit: int = 1
    ) -> Page:
        (await self._call("poll"))()
        start = start_from or ""
        found = [each for each in self._log(name) if each.id > start or (inclusive and each.id == start)][:limit]
        return Page(messages=tuple(found), next_position=found[-1].id if found else start)

    async def readers(self, namespace: str, name: str) -> Sequence[Reader]:
        (await self._call("readers"))()
        self._log(name)
        return [
            Reader(name=reader, position=position, updated_ms=0, lag_messages=0, lag_seconds=0.0)
            for (topic, reader), position in self.noted.items()
            if topic == name
        ]

    async def note_reader(self, namespace: str, name: str, reader: str, *, position: str) -> None:
        answer = await self._call("note_reader")
        self.noted[name, reader] = position
        answer()


class TwinNode:
    """The durable state of a node; ``answers`` False: it is killed after the write and before the ack."""

    def __init__(self) -> None:
        self.put: list[str] = []
        """Bodies in the order they came into the queue."""
        self.states: dict[str, message.InputState] = {}
        self.answers = True
        self.nack: message.Nack | None = None
        self.seconds_left: list[float] = []

    def take(self, header: message.Input, content: bytes) -> message.Ack | message.Nack:
        if self.nack is not None:
            return msgspec.structs.replace(self.nack, parent_id=header.id)
        self.seconds_left.append(header.ttl_seconds)
        if header.message not in self.states:
            self.states[header.message] = "delivered"
            from fairlead_wire.link import codec

            self.put.append(str(msgspec.json.decode(codec.unpack(header.encoding, content))["body"]))
        return message.Ack(parent_id=header.id)

    def told(self, header: message.AskInputs) -> bytes:
        found = [message.InputReached(message=id, state=self.states[id]) for id in header.messages if id in self.states]
        return msgspec.json.encode(found)


class InputLine:
    """One hub after the other, one messaging, one node ``edge-1``."""

    def __init__(self, messaging: Any = None, *, has_messaging: bool = True) -> None:
        self.messaging = messaging if messaging is not None else TwinMessaging()
        self._has_messaging = has_messaging
        self.node = TwinNode()
        self.wall = NOON
        self.is_hub = True
        self.counts = IoCounts()
        self.edge: Edge | None = None
        self._running: asyncio.Task[None] | None = None
        self.new_hub()

    def new_hub(self) -> None:
        """Replace the hub as after kill -9; the node has no session."""
        self.close()
        self.core = Core("edge-1")
        self.edge = None
        self.inputs = InputService(
            self.core.hub,
            self.messaging if self._has_messaging else None,
            counts=self.counts,
            may_send=lambda: self.is_hub,
            wall=lambda: self.wall,
        )
        self._running = asyncio.create_task(self.inputs.run())

    def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self.inputs.close()

    def connect(self, *, inputs: bool = True) -> None:
        """The node opens a session."""
        self.leave()
        self.edge = self.core.connect("edge-1", inputs=inputs)
        self.inputs.opened(self.edge.ref)

    def leave(self) -> None:
        """Its session ends."""
        if self.edge is not None:
            session, edge, self.edge = self.edge.ref, self.edge, None
            self.inputs.forget(session)
            edge.leave()

    async def send(
        self, body: str, *, key: str | None = None, ttl: float = 600.0, input: str = "commands"
    ) -> MessageState:
        to = Address(node="edge-1", uid="uid-edge-1", module="camera", input=input)
        messages = submission.parse(msgspec.json.encode({"body": body}))
        [found] = await self.inputs.send(to, messages, ttl=ttl, key=key)
        return found

    async def state(self, id: str, *, wait: float = 0.0, until: str = "consumed") -> MessageState | None:
        return await self.inputs.state("edge-1", id, until=frozenset((until,)), wait_seconds=wait)

    def work(self) -> bool:
        """Let the node handle the received frames.  False: there were none."""
        if self.edge is None:
            return False
        edge = self.edge
        did = False
        for header, content in self.core.frames(edge.ref):
            if isinstance(header, message.Input):
                did, answer = True, self.node.take(header, content)
                if self.node.answers:
                    assert edge.receive(answer) is answer, "it is not about an object"
                    self.inputs.answered(edge.ref, answer, b"")
            elif isinstance(header, message.AskInputs):
                did = True
                if self.node.answers:
                    states = message.InputStates(parent_id=header.id)
                    assert edge.receive(states) is states
                    self.inputs.received_states(edge.ref, states, self.node.told(header))
        return did

    async def settle(self, until: Callable[[], bool] = lambda: False) -> None:
        """Let hub and node work until nothing happens any more, or until the condition is true."""
        quiet = 0
        while quiet < SETTLE_STEPS and not until():
            quiet = 0 if self.work() else quiet + 1
            await asyncio.sleep(0)

    async def answered(self, asked: Any) -> Any:
        """The result of a call for which the node has to work meanwhile."""
        task = asyncio.ensure_future(asked)
        while not task.done():
            self.work()
            await asyncio.sleep(0)
        return task.result()
