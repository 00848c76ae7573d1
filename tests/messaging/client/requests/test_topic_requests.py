"""What goes out about topics, and how an answer is read."""

from __future__ import annotations

import pytest
from tests.support.topics.answers import answer, refusal

from fairlead_messaging.client import errors, requests


def test_names_are_quoted_into_paths() -> None:
    """No name can become another request."""
    assert requests.topic("a/b", "../c?d#e").path == "/v1/namespaces/a%2Fb/topics/..%2Fc%3Fd%23e"
    assert requests.inspect("n", "t", after="a&limit=1").path.endswith("/inspect?after=a%26limit%3D1")


def test_a_topic_that_exists_is_no_error() -> None:
    """A program that creates it wants it to be there."""
    assert requests.create_topic("n", "t").read(answer()) is True
    assert requests.create_topic("n", "t").read(refusal(409, "topic_exists")) is False
    with pytest.raises(errors.Denied):
        requests.create_topic("n", "t").read(refusal(400, "bad_name"))


def test_a_deletion_is_done_when_nothing_is_there_after_doubt() -> None:
    """An earlier sending may have deleted it."""
    requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"))
