"""Messages to modules in messaging: one topic per node, the hub's position in it, and the state of messages.

These messages wait only in the topic.  ``NodeAnswers`` asks connected nodes for the state of messages, one question per
node at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead_hub.hub import Hub
from fairlead_hub.inputs import node_queue
from fairlead_hub.session_ref import SessionRef
from fairlead_messaging.api.responses import Page, Reader
from fairlead_messaging.client.errors import TopicMissing
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Temporary
from fairlead_wire.link import peer_json

NAMESPACE: Final = "system"
PREFIX: Final = "inputs-"
READER: Final = "hub"
TTL_SECONDS: Final = message.INPUT_TTL_SECONDS_MAX + 24 * 3600
"""Time to live in the topics: longer than that of any message, so that a fast clock removes nothing too early."""
PAGE_MESSAGES: Final = 16
"""Of at most 256 KiB each."""
_NODE: Final = re.compile(r"[a-z0-9.-]{1,190}\Z")


class InputLogClient(Protocol):
    """The part of ``AsyncClient`` that is used."""

    async def create_topic(self, namespace: str, name: str, properties: dict[str, Any] | None = None) -> bool: ...

    async def topics(self, namespace: str) -> list[str]: ...

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> object: ...

    async def poll(
        self, namespace: str, name: str, *, start_from: str | None = None, inclusive: bool = True, limit: int = 1
    ) -> Page: ...

    async def readers(self, namespace: str, name: str) -> Sequence[Reader]: ...

    async def note_reader(self, namespace: str, name: str, reader: str, *, position: str) -> None: ...


def topic_of(node: str) -> str | None:
    """Returns None if a topic cannot be named after this node."""
    return PREFIX + node.replace(".", "_") if _NODE.match(node) else None


def node_of(topic: str) -> str | None:
    """Returns None if it is not a node's topic."""
    return topic[len(PREFIX) :].replace("_", ".") if topic.startswith(PREFIX) else None


class InputLog:
    """Raises what the client raises."""

    def __init__(self, messaging: InputLogClient) -> None:
        self._messaging = messaging

    async def nodes(self) -> list[str]:
        """All nodes to which something was ever sent."""
        return [node for topic in await self._messaging.topics(NAMESPACE) if (node := node_of(topic)) is not None]

    async def append(self, node: str, payloads: Sequence[bytes]) -> None:
        """Append all or none, durably."""
        topic = _named(node)
        try:
            await self._messaging.publish(NAMESPACE, topic, payloads)
        except TopicMissing:
            await self._messaging.create_topic(NAMESPACE, topic, {"ttl": TTL_SECONDS})
            await self._messaging.publish(NAMESPACE, topic, payloads)

    async def reached(self, node: str) -> str:
        """The position up to which everything was delivered, as last recorded."""
        try:
            readers = await self._messaging.readers(NAMESPACE, _named(node))
        except TopicMissing:
            return node_queue.AT_START
        return next((each.position for each in readers if each.name == READER), node_queue.AT_START)

    async def read(self, node: str, after: str) -> list[tuple[str, bytes]]:
        """The next messages with their positions; empty if there are no more."""
        try:
            page = await self._messaging.poll(
                NAMESPACE, _named(node), start_from=after or None, inclusive=not after, limit=PAGE_MESSAGES
            )
        except TopicMissing:
            return []
        return [(each.id, each.payload) for each in page.messages]

    async def one(self, node: str, position: str) -> bytes | None:
        """Returns None if the message is no longer there."""
        try:
            page = await self._messaging.poll(NAMESPACE, _named(node), start_from=position, inclusive=True, limit=1)
        except TopicMissing:
            return None
        return next((each.payload for each in page.messages if each.id == position), None)

    async def note(self, node: str, position: str) -> None:
        """Record that everything up to this position is delivered."""
        await self._messaging.note_reader(NAMESPACE, _named(node), READER, position=position)


def _named(node: str) -> str:
    topic = topic_of(node)
    assert topic is not None, node
    return topic


SECONDS_MAX = 10.0


class Unanswered(Temporary):
    """The node disconnected or does not answer: it may know the message."""


_states = msgspec.json.Decoder(list[message.InputReached])


class _OpenQuestions(msgspec.Struct):
    """The open question to one node, and the callers waiting per message."""

    id: int
    messages: list[str]
    answer: asyncio.Future[dict[str, message.InputState] | None]
    """None: the session ended."""


class NodeAnswers:
    """The questions of all sessions."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._asked: dict[SessionRef, _OpenQuestions] = {}

    async def ask(self, session: SessionRef, id: str) -> message.InputState | None:
        """Returns None if the node does not know the message.  Raises ``Unanswered``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_MAX):
                # Shielded from cancellation: the answer is still to come, and others wait for it.
                while (open_one := self._asked.get(session)) is not None:
                    await asyncio.wait([open_one.answer])
                asked = self._ask(session, id)
                await asyncio.wait([asked.answer])
                found = asked.answer.result()
                if found is not None:
                    return found.get(id)
        raise Unanswered(f"node {session.node} does not answer")

    def _ask(self, session: SessionRef, id: str) -> _OpenQuestions:
        number = self._hub.sessions.ask(session, lambda number: message.AskInputs(id=number, messages=[id]))
        asked = self._asked[session] = _OpenQuestions(number, [id], asyncio.get_running_loop().create_future())
        return asked

    def received_states(self, session: SessionRef, header: message.InputStates, content: bytes) -> None:
        """Handle an answer.  Raises ``Malformed`` if it was not asked for."""
        asked = self._asked.get(session)
        if asked is None or asked.id != header.parent_id:
            raise Malformed("unrequested states of messages")
        if len(content) > 256 * message.INPUT_STATES_MAX:
            raise Malformed("the states are longer than the requested messages allow")
        found = peer_json.decode(_states, content)
        del self._asked[session]
        if not asked.answer.done():
            asked.answer.set_result({each.message: each.state for each in found if each.message in asked.messages})

    def forget(self, session: SessionRef) -> None:
        """The session ended."""
        asked = self._asked.pop(session, None)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(None)
