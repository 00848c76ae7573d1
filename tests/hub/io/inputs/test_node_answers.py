"""Questions to nodes, one at a time."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.hubs.hub_core import Core

from fairlead_hub.io.inputs import input_log
from fairlead_hub.io.inputs.input_log import NodeAnswers, Unanswered
from fairlead_wire import message
from fairlead_wire.errors import Malformed

A, B = "a" * 32, "b" * 32


async def test_questions_to_a_node_wait_for_each_other() -> None:
    """A node has one open; each asker gets its own answer."""
    core = Core("edge-1")
    edge, answers = core.connect(inputs=True), NodeAnswers(core.hub)
    edge.sent()
    first, second = (
        asyncio.ensure_future(answers.ask(edge.ref, A)),
        asyncio.ensure_future(answers.ask(edge.ref, B)),
    )
    await asyncio.sleep(0)
    [asked] = edge.sent()
    answers.received_states(
        edge.ref, message.InputStates(parent_id=asked.id), b'[{"message":"%b","state":"expired"}]' % A.encode()
    )
    assert await first == "expired"
    for _ in range(5):
        await asyncio.sleep(0)
    [asked] = edge.sent()
    assert asked.messages == [B]
    answers.received_states(edge.ref, message.InputStates(parent_id=asked.id), b"[]")
    assert await second is None


async def test_a_node_that_goes_or_is_silent_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages behind it wait no longer than its own time."""
    monkeypatch.setattr(input_log, "SECONDS_MAX", 0.02)
    core = Core("edge-1")
    edge, answers = core.connect(inputs=True), NodeAnswers(core.hub)
    silent = await asyncio.gather(answers.ask(edge.ref, A), answers.ask(edge.ref, B), return_exceptions=True)
    assert [type(each) for each in silent] == [Unanswered, Unanswered]
    monkeypatch.setattr(input_log, "SECONDS_MAX", 60.0)
    asking = asyncio.ensure_future(answers.ask(edge.ref, B))
    while not asking.done():  # the question before it is open still; then its own
        await asyncio.sleep(0)
        answers.forget(edge.ref)
    with pytest.raises(Unanswered):
        asking.result()


async def test_what_was_not_asked_for_ends_the_session() -> None:
    """As do answers that are too long or no answers."""
    core = Core("edge-1")
    edge, answers = core.connect(inputs=True), NodeAnswers(core.hub)
    with pytest.raises(Malformed):
        answers.received_states(edge.ref, message.InputStates(parent_id=1), b"[]")
    asking = asyncio.ensure_future(answers.ask(edge.ref, A))
    await asyncio.sleep(0)
    [asked] = [each for each in edge.sent() if isinstance(each, message.AskInputs)]
    for parent_id, content in ((asked.id + 1, b"[]"), (asked.id, b"{"), (asked.id, b" " * 100_000)):
        with pytest.raises(Malformed):
            answers.received_states(edge.ref, message.InputStates(parent_id=parent_id), content)
    answers.forget(edge.ref)
    with pytest.raises(Unanswered):
        await asking
