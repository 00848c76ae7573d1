"""Which error an answer of the API server stands for, whatever its body."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead_hub.io.cluster import api_error
from fairlead_hub.io.cluster.api_error import ERROR_CHARS_MAX, ApiRefused, ApiUnavailable, UnreadableAnswer


@pytest.mark.parametrize("status", sorted(api_error.BUSY))
def test_busy_comes_again(status: int) -> None:
    """After the seconds that the server names, if it names any."""
    found = api_error.of_answer(status, {"Retry-After": "7"}, b"")
    assert isinstance(found, ApiUnavailable) and found.retry_after_seconds == 7.0
    found = api_error.of_answer(status, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"")
    assert isinstance(found, ApiUnavailable) and found.retry_after_seconds is None


def test_credentials_that_are_not_taken_are_as_if_the_server_were_away() -> None:
    found = api_error.of_answer(401, {}, b'{"message": "Unauthorized"}')
    assert isinstance(found, ApiUnavailable) and "does not accept our credentials: Unauthorized" in str(found)


@pytest.mark.parametrize(("reason", "code"), [("AlreadyExists", "AlreadyExists"), ("", "http_409")])
def test_any_other_is_a_refusal_with_its_reason(reason: str, code: str) -> None:
    found = api_error.of_answer(409, {}, json.dumps({"message": "no", "reason": reason}).encode())
    assert isinstance(found, ApiRefused) and (found.status, found.code) == (409, code)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b"[]", b'{"message": 5}'])
def test_a_body_may_be_anything(body: bytes) -> None:
    """Of a long one a part is shown."""
    found = api_error.of_answer(404, {}, body)
    assert isinstance(found, ApiRefused) and len(str(found)) <= ERROR_CHARS_MAX + 50


def test_a_reason_is_one_line() -> None:
    """It is shown in a column of ``kubectl get``; what serves no such path answers with a newline at its end."""
    assert str(api_error.of_answer(404, {}, b"404 page not found\n")) == "API server answered 404: 404 page not found"


def test_a_good_answer_that_is_something_else_may_be_gone_soon() -> None:
    decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
    assert api_error.decoded(decoder, b'{"a": 1}', "x") == {"a": 1}
    with pytest.raises(UnreadableAnswer, match="the answer for api/v1/pods cannot be read"):
        api_error.decoded(decoder, b"<html>", "api/v1/pods")
