"""The contract's routes, and that the server has the same."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.topics.messaging import EVERY_ROUTE, serving

from fairlead_messaging.api import error_codes, routes
from fairlead_messaging.api.routes import ARROW_POLL, ApiRoute


def test_names_are_quoted_into_paths() -> None:
    """No name can become another path."""
    assert routes.PLAN.at("a/b", "..") == "/v1/namespaces/a%2Fb/topics/../plan"
    assert routes.TOPICS.at("a?x={b}") == "/v1/namespaces/a%3Fx%3D%7Bb%7D/topics"
    assert routes.COMMIT.at(7) == "/v1/transactions/7/commit"


def test_each_route_is_named_once() -> None:
    """By operation, and by method and path."""
    assert len({route.operation for route in EVERY_ROUTE}) == len(EVERY_ROUTE)
    assert len({(route.method, route.path) for route in EVERY_ROUTE}) == len(EVERY_ROUTE)


async def test_the_server_has_these_routes_and_no_others() -> None:
    """Also those of health; HEAD comes with each GET."""
    async with serving() as topics:
        served = {
            (route.method, route.resource.canonical)
            for route in topics.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    assert served == {(route.method, route.path) for route in EVERY_ROUTE}


@pytest.mark.parametrize("route", [*EVERY_ROUTE, ARROW_POLL], ids=lambda route: str(route.operation))
def test_examples_are_what_they_stand_for(route: ApiRoute[object]) -> None:
    """Each request and answer that has a shape has an example of it, and every code is known."""
    for example, shape in ((route.example, route.request), (route.answers, route.response)):
        if shape is not None and route is not routes.OPENAPI:
            raw = msgspec.json.encode(example)
            assert msgspec.json.encode(msgspec.json.decode(raw, type=shape)) == raw
    assert set(route.specific_codes) <= set(error_codes.MEANINGS)


def test_a_call_needs_a_body_when_a_field_of_it_is_required() -> None:
    """A poll of everything and a commit without changes need none."""
    assert routes.NOTE_READER.request_is_required and routes.ROLLBACK.request_is_required
    assert not routes.POLL.request_is_required and not routes.CREATE_TOPIC.request_is_required
