"""One topic for each node in messaging, and how far the hub has delivered it: the only place where messages wait."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from fairlead_hub.inputs import node_queue
from fairlead_messaging.api.responses import Page, Reader
from fairlead_messaging.client.errors import TopicMissing
from fairlead_wire import message

NAMESPACE: Final = "system"
PREFIX: Final = "inputs-"
READER: Final = "hub"
TTL_SECONDS: Final = message.INPUT_TTL_SECONDS_MAX + 24 * 3600
"""Of the topics: longer than of any message, so that a clock that is ahead takes nothing away too early."""
PAGE_MESSAGES: Final = 16
"""Of at most 256 KiB each."""
_NODE: Final = re.compile(r"[a-z0-9.-]{1,190}\Z")


class InputLogClient(Protocol):
    """What is used of ``AsyncClient``."""

    async def create_topic(self, namespace: str, name: str, properties: dict[str, Any] | None = None) -> bool: ...

    async def topics(self, namespace: str) -> list[str]: ...

    async def publish(self, namespace: str, name: str, payloads: Sequence[bytes]) -> object: ...

    async def poll(
        self, namespace: str, name: str, *, start_from: str | None = None, inclusive: bool = True, limit: int = 1
    ) -> Page: ...

    async def readers(self, namespace: str, name: str) -> Sequence[Reader]: ...

    async def note_reader(self, namespace: str, name: str, reader: str, *, position: str) -> None: ...


def topic_of(node: str) -> str | None:
    """None: no topic can be called after this node."""
    return PREFIX + node.replace(".", "_") if _NODE.match(node) else None


def node_of(topic: str) -> str | None:
    """None: it is no topic of a node."""
    return topic[len(PREFIX) :].replace("_", ".") if topic.startswith(PREFIX) else None


class InputLog:
    """Raises what the client raises."""

    def __init__(self, messaging: InputLogClient) -> None:
        self._messaging = messaging

    async def nodes(self) -> list[str]:
        """To which something was sent at some time."""
        return [node for topic in await self._messaging.topics(NAMESPACE) if (node := node_of(topic)) is not None]

    async def append(self, node: str, payloads: Sequence[bytes]) -> None:
        """All or none, durably."""
        topic = _named(node)
        try:
            await self._messaging.publish(NAMESPACE, topic, payloads)
        except TopicMissing:
            await self._messaging.create_topic(NAMESPACE, topic, {"ttl": TTL_SECONDS})
            await self._messaging.publish(NAMESPACE, topic, payloads)

    async def reached(self, node: str) -> str:
        """Up to where all was delivered, as it was noted last."""
        try:
            readers = await self._messaging.readers(NAMESPACE, _named(node))
        except TopicMissing:
            return node_queue.AT_START
        return next((each.position for each in readers if each.name == READER), node_queue.AT_START)

    async def read(self, node: str, after: str) -> list[tuple[str, bytes]]:
        """The next messages with their positions; empty: there are no more."""
        try:
            page = await self._messaging.poll(
                NAMESPACE, _named(node), start_from=after or None, inclusive=not after, limit=PAGE_MESSAGES
            )
        except TopicMissing:
            return []
        return [(each.id, each.payload) for each in page.messages]

    async def one(self, node: str, position: str) -> bytes | None:
        """None: it is there no more."""
        try:
            page = await self._messaging.poll(NAMESPACE, _named(node), start_from=position, inclusive=True, limit=1)
        except TopicMissing:
            return None
        return next((each.payload for each in page.messages if each.id == position), None)

    async def note(self, node: str, position: str) -> None:
        """All up to this is delivered."""
        await self._messaging.note_reader(NAMESPACE, _named(node), READER, position=position)


def _named(node: str) -> str:
    topic = topic_of(node)
    assert topic is not None, node
    return topic
