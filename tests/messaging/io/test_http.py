"""What all handlers share: errors in JSON, whatever went wrong."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.messaging import Topics

from fairlead_messaging.errors import Conflict, Unavailable
from fairlead_messaging.io import http, rest


def test_errors_as_responses() -> None:
    """Code, text and facts in the body; the pause in whole seconds, at least one."""
    answer = http.error_response(Conflict("no", code="c", state="aborted"))
    assert answer.status == 409
    assert msgspec.json.decode(answer.body) == {"error": {"code": "c", "message": "no", "state": "aborted"}}
    assert http.error_response(Unavailable("wait", retry_after_seconds=0.2)).headers["Retry-After"] == "1"
    assert http.error_response(Unavailable("wait", retry_after_seconds=1.5)).headers["Retry-After"] == "2"


async def test_a_defect_is_500_without_its_traceback(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logged for us, told without detail."""

    def broken(*_: object) -> None:
        raise RuntimeError("the inner workings")

    monkeypatch.setattr(rest.topics, "names", broken)
    answer = await topics.ask("GET", "topics")
    assert (answer.status, answer.code) == (500, "internal")
    assert "inner" not in str(answer.body)
