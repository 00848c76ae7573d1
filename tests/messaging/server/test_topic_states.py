"""What the writer remembers of topics."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.errors import NotFound
from fairlead_messaging.server import topic_states
from fairlead_messaging.server.topic_states import TopicStates


def test_a_topic_is_read_once_and_again_after_a_failed_batch() -> None:
    """Positions given out by the failed one are never given out again."""
    core = Core()
    core.create("t")
    core.batch(publish("t", "lost"), lost=True)
    core.do(publish("t", "kept"))
    states = TopicStates(core.kv)
    assert states.of((NAMESPACE, "t")) is states.of((NAMESPACE, "t"))
    assert states.living((NAMESPACE, "t")).generation == 1
    before = states.of((NAMESPACE, "t"))
    first = before.log.sequencer.next(core.now_ms)
    states.advance((NAMESPACE, "t"))
    states.forget()
    after = states.of((NAMESPACE, "t"))
    assert after is not before
    assert after.log.sequencer.next(core.now_ms) > first


def test_a_missing_topic_is_said_to_be_missing() -> None:
    """By its name."""
    with pytest.raises(NotFound, match="n/absent"):
        TopicStates(Core().kv).living((NAMESPACE, "absent"))


def test_not_more_are_remembered_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped is read again."""
    monkeypatch.setattr(topic_states, "TOPICS_CACHED_MAX", 2)
    core = Core()
    for name in ("a", "b", "c"):
        core.create(name)
        core.do(publish(name, name))
    assert [core.read(name) for name in ("a", "b", "c")] == [["a"], ["b"], ["c"]]
