"""Commands are facts, made once, never changed; each is answered by what it is typed with."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed, publish

from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server.commands import CreateTopic, DeleteTopic, RecordReaderPosition, RemoveRows, UpdateTopic
from fairlead_messaging.server.store.ordered_kv import Batch


def test_a_command_cannot_be_changed() -> None:
    """What was submitted is what is judged."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        publish("t", "a").name = "other"  # type: ignore[misc]


def test_each_command_on_a_topic_is_answered_by_its_type() -> None:
    """The type in ``Command[T]`` is a promise to callers that no checker sees behind the writer's table."""
    core = Core()
    topic: dict[str, Any] = {"namespace": NAMESPACE, "name": "t"}
    answers_as_typed(core, CreateTopic(**topic, ttl_seconds=9, properties={}))
    answers_as_typed(core, publish("t", "a"))
    answers_as_typed(core, UpdateTopic(**topic, ttl_seconds=8, properties={}))
    answers_as_typed(core, RecordReaderPosition(**topic, reader="r", position=FIRST, generation=None))
    answers_as_typed(core, RemoveRows(batch=Batch()))
    answers_as_typed(core, DeleteTopic(**topic))
