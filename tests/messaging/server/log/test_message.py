"""Messages on their way in."""

from __future__ import annotations

from fairlead_messaging.server.log.rows import LoggedMessage, columns


def test_a_message_lives_as_long_as_its_topic_unless_it_says_otherwise() -> None:
    """0 means the topic's ttl."""
    assert LoggedMessage(b"a").ttl_seconds == 0


def test_bare_payloads_and_messages_are_the_same_columns() -> None:
    """Times to live are a column only where one has its own."""
    assert columns([b"a", b"b"]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b")]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b", 5)]) == ([b"a", b"b"], [0, 5])
