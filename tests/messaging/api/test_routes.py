"""The contract's routes, and that the server has the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.topics.messaging import EVERY_ROUTE, serving

import fairlead_messaging
from fairlead_messaging.api import error_codes, routes
from fairlead_messaging.api.routes import ARROW_POLL, ApiRoute
from fairlead_messaging.client import errors


def test_names_are_quoted_into_paths() -> None:
    assert routes.PLAN.at("a/b", "..") == "/v1/namespaces/a%2Fb/topics/../plan"
    assert routes.TOPICS.at("a?x={b}") == "/v1/namespaces/a%3Fx%3D%7Bb%7D/topics"
    assert routes.COMMIT.at(7) == "/v1/transactions/7/commit"


def test_each_route_is_named_once() -> None:
    assert len({route.operation for route in EVERY_ROUTE}) == len(EVERY_ROUTE)
    assert len({(route.method, route.path) for route in EVERY_ROUTE}) == len(EVERY_ROUTE)


async def test_the_server_has_these_routes_and_no_others() -> None:
    async with serving() as topics:
        served = {
            (route.method, route.resource.canonical)
            for route in topics.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    assert served == {(route.method, route.path) for route in EVERY_ROUTE}


@pytest.mark.parametrize("route", [*EVERY_ROUTE, ARROW_POLL], ids=lambda route: str(route.operation))
def test_examples_are_what_they_stand_for(route: ApiRoute[object]) -> None:
    for example, shape in ((route.example, route.request), (route.answers, route.response)):
        if shape is not None and route is not routes.OPENAPI:
            raw = msgspec.json.encode(example)
            assert msgspec.json.encode(msgspec.json.decode(raw, type=shape)) == raw
    assert set(route.specific_codes) <= set(error_codes.MEANINGS)


def test_a_call_needs_a_body_when_a_field_of_it_is_required() -> None:
    assert routes.NOTE_READER.request_is_required and routes.ROLLBACK.request_is_required
    assert not routes.POLL.request_is_required and not routes.CREATE_TOPIC.request_is_required


# --- The codes of refusals: those the server can say and those the contract names are the same.


ROOM = Path(fairlead_messaging.__file__).parent
BY_CONSTRUCTION = {"bad_ts", "bad_limit"}
"""Made of ``bad_`` and the name of a query parameter."""


def said() -> Iterator[str]:
    """Every text that server and errors use as a code."""
    for path in [*ROOM.glob("server/**/*.py"), ROOM / "api" / "errors.py", ROOM / "api" / "message_id.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="code")], value=value):
                    for part in ast.walk(value):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield part.value
                case ast.Call(func=ast.Name(id="MemoryBudget"), args=[_, ast.Constant(value=str(value))]):
                    yield value


@pytest.mark.slow
def test_the_server_says_no_other_codes_and_each_of_these() -> None:
    codes = {each for each in said() if re.fullmatch(r"[a-z]+(_[a-z]+)*", each)} | BY_CONSTRUCTION
    known = set(error_codes.MEANINGS)
    assert codes - known == set()
    assert known - codes <= {"internal"}


def test_general_codes_and_facts_are_known_codes() -> None:
    for group in (error_codes.EVERYWHERE, error_codes.WITH_A_BODY, error_codes.NOTHING_DONE, error_codes.FACTS):
        assert set(group) <= set(error_codes.MEANINGS)
    assert all(error_codes.MEANINGS[code][0] == 503 for code in error_codes.NOTHING_DONE)


def test_clients_read_status_and_code_alike() -> None:
    for code, (status, meaning) in error_codes.MEANINGS.items():
        body = b'{"error":{"code":"%s","message":"m"}}' % code.encode()
        failure = errors.from_response("GET /", status, {}, body)
        assert failure.code == code and meaning.endswith(".")
        assert isinstance(failure, errors.Busy) == (status in errors.RETRYABLE_STATUSES)
