"""How far tables have read topics: queried from messaging for the nodes that ask, and answered to each.

    node ─tables▶ accept ─▶ granted topics ─▶ what is known for less than a second, or messaging's readers ─tables▶ node

All nodes share the queries: each topic at most once per ``FRESH_SECONDS``, and few at the same time.  A reader fills a
table if it says so (ingest does, with each commit); other readers are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from fairlead_hub.hub import Hub
from fairlead_hub.session_ref import SessionRef
from fairlead_messaging.api.responses import Reader
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent, RemoteError, Temporary
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

FRESH_SECONDS = 1.0
ASKED_AT_ONCE_MAX = 4
"""Parallel queries to messaging."""
WAITING_NODES_MAX = 2_000
"""Nodes being answered; further ones are asked to retry later."""
TOPICS_KEPT_MAX = 4_096
RETRY_SECONDS = 2.0
REFUSED_LOG_SECONDS = 60.0
_log = logs.get("hub.tables")
_encode = msgspec.json.encode


class PositionsClient(Protocol):
    """The part of ``AsyncClient`` that is used."""

    async def readers(self, namespace: str, name: str) -> Sequence[Reader]: ...


class TablePositions:
    """Serves all sessions."""

    def __init__(self, hub: Hub, messaging: PositionsClient | None) -> None:
        self._hub, self._messaging = hub, messaging
        self._known: dict[str, tuple[float, asyncio.Task[message.TopicTables | None]]] = {}
        """By topic: when it was queried, oldest first, and the answer."""
        self._room = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
        self._answering: dict[SessionRef, asyncio.Task[None]] = {}
        self._refusals = LogLimiter(REFUSED_LOG_SECONDS)

    def accept(self, session: SessionRef, header: message.AskTables, content: bytes = b"") -> None:
        """Raises ``Malformed`` if the previous question is still unanswered."""
        if session in self._answering:
            raise Malformed("table positions were requested again before the answer")
        if self._messaging is None:
            self._not_now(session, header, "no_messaging", "this hub has no messaging service")
        elif len(self._answering) >= WAITING_NODES_MAX:
            self._not_now(session, header, "busy", f"{WAITING_NODES_MAX} nodes are being answered")
        else:
            task = asyncio.get_running_loop().create_task(self._answer(session, header))
            self._answering[session] = task
            task.add_done_callback(lambda done: self._answered(session, done))

    def forget(self, session: SessionRef) -> None:
        """The session ended."""
        task = self._answering.get(session)
        if task is not None:
            task.cancel()

    def _answered(self, session: SessionRef, done: asyncio.Task[None]) -> None:
        self._answering.pop(session, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.error("tables_error", node=session.node, **logs.describe_error(error), remedy="report it")

    async def _answer(self, session: SessionRef, header: message.AskTables) -> None:
        granted = self._hub.view.topics(session.node)
        wanted = [topic for topic in dict.fromkeys(header.topics) if topic in granted]
        try:
            # Shielded: others wait for the same answer.
            found = [await asyncio.shield(self._topic(topic)) for topic in wanted]
        except (Temporary, Permanent, RemoteError) as error:
            if (times := self._refusals.due("tables", asyncio.get_running_loop().time())) is not None:
                _log.warning("tables_unknown", reason=str(error), times=times)
            self._not_now(session, header, "messaging_unavailable", str(error))
            return
        content = _encode([each for each in found if each is not None])
        self._hub.sessions.say(session, message.Tables(parent_id=header.id), content)

    def _not_now(self, session: SessionRef, header: message.AskTables, code: str, reason: str) -> None:
        nack = message.Nack(
            parent_id=header.id, code=code, reason=reason[: message.REASON_CHARS_MAX], retry_after=RETRY_SECONDS
        )
        self._hub.sessions.say(session, nack)

    def _topic(self, topic: str) -> asyncio.Task[message.TopicTables | None]:
        """The latest answer, or the query in progress."""
        loop = asyncio.get_running_loop()
        known = self._known.get(topic)
        if known is not None and (not known[1].done() or loop.time() - known[0] < FRESH_SECONDS):
            return known[1]
        self._known.pop(topic, None)
        while len(self._known) >= TOPICS_KEPT_MAX:
            del self._known[next(iter(self._known))]
        task = loop.create_task(self._read(topic))
        task.add_done_callback(_looked_at)
        self._known[topic] = (loop.time(), task)
        return task

    async def _read(self, topic: str) -> message.TopicTables | None:
        assert self._messaging is not None
        namespace, _, name = topic.partition("/")
        async with self._room:
            try:
                readers = await self._messaging.readers(namespace, name)
            except Permanent as error:
                if error.code == "topic_not_found":
                    return None
                raise
        return tables_of(topic, readers)


def tables_of(topic: str, readers: Sequence[Reader]) -> message.TopicTables | None:
    """What a node is told about a topic; None if no reader fills a table.

    Limited to the most recent readers: the answer has to fit into a frame, and consumers of a topic may use any number
    of names.
    """
    filling = [each for each in readers if each.table is not None and each.service]
    if not filling:
        return None
    latest = sorted(filling, key=lambda each: each.updated_ms)[-message.TABLE_READERS_MAX :]
    return message.TopicTables(
        topic=topic,
        service=latest[0].service,
        generation=latest[0].generation,
        readers=[
            message.TableReached(
                reader=each.name,
                table=each.table.name,
                start=each.table.start,
                position=each.position,
                batch=each.table.batch,
                version=each.table.version,
                rowless=each.table.rowless,
            )
            for each in latest
            if each.table is not None
        ],
    )


def _looked_at(task: asyncio.Task[message.TopicTables | None]) -> None:
    """Retrieve the error, so that asyncio does not log it as unhandled if nothing waits any more."""
    if not task.cancelled():
        task.exception()
