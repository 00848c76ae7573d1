"""Commands are facts: made once, never changed."""

from __future__ import annotations

import dataclasses

import pytest
from tests.support.messaging_core import publish

from fairlead_messaging.server.commands import Message


def test_a_command_cannot_be_changed() -> None:
    """What was submitted is what is judged."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        publish("t", "a").name = "other"  # type: ignore[misc]


def test_a_message_lives_as_long_as_its_topic_unless_it_says_otherwise() -> None:
    """0 means the topic's ttl."""
    assert Message(b"a").ttl_seconds == 0
