"""One request as a value; those the service knows are in ``test_requests``."""

from __future__ import annotations

import pytest

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import InspectQuery
from fairlead_messaging.client import errors, request
from fairlead_messaging.client.request import Response
from fairlead_wire.errors import LocalError


def test_a_topic_is_namespace_and_name() -> None:
    """As it is written everywhere."""
    assert request.split("a/b") == ("a", "b")
    for text in ("a", "a/", "/b", ""):
        with pytest.raises(LocalError):
            request.split(text)


def test_a_request_says_which_types_it_sends_and_takes() -> None:
    """A type of content only where there is any."""
    assert request.build_json(routes.NAMESPACES).headers == {"Accept": headers.JSON}
    sent = request.build_empty(routes.UPDATE_TOPIC, "n", "t", body={"ttl": 5})
    assert sent.headers == {"Accept": headers.JSON, "Content-Type": headers.JSON}
    assert (sent.method, sent.path, sent.body) == ("PUT", "/v1/namespaces/n/topics/t/properties", b'{"ttl":5}')


def test_a_query_is_quoted_behind_the_path() -> None:
    """Its values are text of a caller."""
    asked = request.build_json(routes.INSPECT, "n", "t", query=InspectQuery(after="a&b", limit=3))
    assert asked.path == "/v1/namespaces/n/topics/t/inspect?after=a%26b&limit=3"


def test_a_refusal_is_raised_unless_the_request_takes_it() -> None:
    """With ``on_refusal`` it may be a result; other answers are errors in any case."""
    refused = Response(status=404, headers={}, body=b'{"error": {"code": "topic_not_found", "message": "no t"}}')
    plain = request.build_empty(routes.DELETE_TOPIC, "n", "t")
    with pytest.raises(errors.TopicMissing):
        plain.read(refused)
    taken = request.build(
        routes.DELETE_TOPIC, "n", "t", decode=lambda _: "deleted", on_refusal=lambda _, in_doubt: f"doubt: {in_doubt}"
    )
    assert taken.read(refused, in_doubt=True) == "doubt: True"
    assert taken.read(Response(status=200, headers={}, body=b"")) == "deleted"
