"""Asks connected nodes for the state of messages: one question to a node at a time."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from fairlead_hub.hub import Hub
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Temporary
from fairlead_wire.link import peer_json

SECONDS_MAX = 10.0


class Unanswered(Temporary):
    """The node went away, or says nothing: it may know the message."""


_states = msgspec.json.Decoder(list[message.InputReached])


class _OpenQuestions(msgspec.Struct):
    """What is open with one node, and who waits for which message."""

    id: int
    messages: list[str]
    answer: asyncio.Future[dict[str, message.InputState] | None]
    """None: the session ended."""


class NodeAnswers:
    """For all sessions."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._asked: dict[SessionRef, _OpenQuestions] = {}

    async def ask(self, session: SessionRef, id: str) -> message.InputState | None:
        """None: the node does not know it.  Raises ``Unanswered``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_MAX):
                # Waited for without being cancelled: its answer is still to come, and others wait for it.
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

    def told(self, session: SessionRef, header: message.InputStates, content: bytes) -> None:
        """The answer.  Raises ``Malformed`` for one to what was not asked."""
        asked = self._asked.get(session)
        if asked is None or asked.id != header.parent_id:
            raise Malformed("states of messages came that were not asked for")
        if len(content) > 256 * message.INPUT_STATES_MAX:
            raise Malformed("the states of so few messages are not so long")
        found = peer_json.decode(_states, content)
        del self._asked[session]
        if not asked.answer.done():
            asked.answer.set_result({each.message: each.state for each in found if each.message in asked.messages})

    def forget(self, session: SessionRef) -> None:
        """The session ended."""
        asked = self._asked.pop(session, None)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(None)
