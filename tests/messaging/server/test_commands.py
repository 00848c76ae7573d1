"""Commands are facts, made once, never changed; each is answered by what it is typed with."""

from __future__ import annotations

import dataclasses

import pytest
from tests.support.messaging_core import NAMESPACE, Core, answers_as_typed, publish

from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server.commands import (
    CreateTopic,
    DeleteTopic,
    Message,
    RecordReaderPosition,
    RemoveRows,
    UpdateTopic,
    columns,
)
from fairlead_messaging.server.store.batch import Batch


def test_a_command_cannot_be_changed() -> None:
    """What was submitted is what is judged."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        publish("t", "a").name = "other"  # type: ignore[misc]


def test_a_message_lives_as_long_as_its_topic_unless_it_says_otherwise() -> None:
    """0 means the topic's ttl."""
    assert Message(b"a").ttl_seconds == 0


def test_bare_payloads_and_messages_are_the_same_columns() -> None:
    """Times to live are a column only where one has its own."""
    assert columns([b"a", b"b"]) == ([b"a", b"b"], [])
    assert columns([b"a", Message(b"b")]) == ([b"a", b"b"], [])
    assert columns([b"a", Message(b"b", 5)]) == ([b"a", b"b"], [0, 5])


def test_each_command_on_a_topic_is_answered_by_its_type() -> None:
    """The type in ``Command[T]`` is a promise to callers that no checker sees behind the writer's table."""
    core = Core()
    topic = {"namespace": NAMESPACE, "name": "t"}
    answers_as_typed(core, CreateTopic(**topic, ttl_seconds=9, properties={}))
    answers_as_typed(core, publish("t", "a"))
    answers_as_typed(core, UpdateTopic(**topic, ttl_seconds=8, properties={}))
    answers_as_typed(core, RecordReaderPosition(**topic, reader="r", position=FIRST, generation=None))
    answers_as_typed(core, RemoveRows(batch=Batch()))
    answers_as_typed(core, DeleteTopic(**topic))
