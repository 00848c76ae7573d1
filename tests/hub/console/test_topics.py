"""Rates from two looks."""

from fairlead_hub.console import topics
from fairlead_hub.console.topics import TopicSample


def rates(*looks):
    before: dict[str, TopicSample] = {}
    shown: dict[str, float | None] = {}
    for look in looks:
        lines = topics.lines(before, shown, [look])
        before, shown = {look.topic: look}, {line.topic: line.rate for line in lines}
    return shown["a/b"]


def test_one_look_does_not_tell_and_two_do():
    """Messages by seconds."""
    assert rates(TopicSample("a/b", 1, 100, 10.0, ())) is None
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 1, 300, 12.0, ())) == 100.0


def test_a_rate_settles_and_ends():
    """Smoothed a little; a tiny rest is nothing."""
    looks = [TopicSample("a/b", 1, total, at, ()) for total, at in ((100, 10.0), (300, 12.0), (300, 14.0))]
    assert rates(*looks) == 50.0
    assert rates(*looks, *(TopicSample("a/b", 1, 300, 16.0 + at, ()) for at in range(20))) == 0.0


def test_a_topic_made_anew_begins_again():
    """Its count begins at nothing; a clock that stands still tells nothing either."""
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 2, 5, 12.0, ())) is None
    assert rates(TopicSample("a/b", 1, 100, 10.0, ()), TopicSample("a/b", 1, 105, 10.0, ())) is None
