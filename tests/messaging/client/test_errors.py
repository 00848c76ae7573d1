"""What an answer means, by what its reader can do next."""

from __future__ import annotations

import json

import pytest

from fairlead_messaging.client import errors
from fairlead_wire.errors import Permanent, Temporary


def of(status: int, *, retry_after: str | None = None, **error: object) -> errors.Busy | errors.Denied:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return errors.from_response("GET /x", status, headers, json.dumps({"error": error}).encode())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "topic_not_found", errors.TopicMissing),
        (404, "no_such_path", errors.Denied),
        (409, "topic_exists", errors.TopicExists),
        (409, "transaction_not_in_progress", errors.TransactionOver),
        (409, "transaction_conflict", errors.TransactionConflict),
        (400, "stored_already", errors.StoredAlready),
        (409, "stored_unpublished", errors.StoredUnpublished),
        (409, "fenced", errors.Fenced),
        (401, "who", errors.NotAllowed),
        (403, "no", errors.NotAllowed),
        (413, "body_too_large", errors.TooLarge),
        (302, "found", errors.Denied),
    ],
)
def test_refusals_have_a_type_where_a_program_may_act_on_them(
    status: int, code: str, kind: type[errors.Denied]
) -> None:
    refused = of(status, code=code, message="because")
    assert type(refused) is kind
    assert isinstance(refused, Permanent)
    assert (refused.code, refused.status, str(refused)) == (code, status, f"GET /x: {status} because")
    assert refused.reason == "because"


def test_facts_come_with_the_refusal() -> None:
    over = of(409, code="transaction_not_in_progress", message="", state="aborted")
    assert isinstance(over, errors.TransactionOver)
    assert over.state == "aborted"
    gone = of(410, code="expired", oldest="0b", expired=7)
    assert isinstance(gone, errors.Expired)
    assert (gone.oldest, gone.rows) == ("0b", 7)
    changed = of(409, code="generation_changed", generation=3)
    assert isinstance(changed, errors.GenerationChanged)
    assert changed.generation == 3


@pytest.mark.parametrize(
    ("status", "code", "in_doubt"),
    [
        (429, "gaps", False),
        (503, "overloaded", False),
        (503, "unavailable", False),
        (503, "too_many_transactions", False),
        (503, "transactions_unavailable", False),
        (503, "storage_failed", True),
        (503, "", True),
        (500, "internal", True),
        (502, "x", True),
    ],
)
def test_not_now_says_whether_it_may_have_happened(status: int, code: str, in_doubt: bool) -> None:
    """Only the service itself can say that it did not begin; a gateway cannot."""
    busy = of(status, code=code)
    assert isinstance(busy, errors.Busy)
    assert isinstance(busy, Temporary)
    assert busy.in_doubt == in_doubt


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), (None, 1.0), ("soon", 1.0), ("-1", 1.0), ("1e9", 1.0), ("999999999", 3600.0), ("9" * 400, 3600.0)],
)
def test_retry_after_is_believed_within_reason(text: str | None, seconds: float) -> None:
    busy = of(503, retry_after=text, code="overloaded")
    assert busy.retry_after_seconds == seconds  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 10_000, b'{"error": 1}', b'{"error": {"code": [1]}}'])
def test_what_is_not_ours_is_shown_in_part(body: bytes) -> None:
    refused = errors.from_response("GET /x", 404, {}, body)
    assert isinstance(refused, errors.Denied)
    is_our_shape = body.startswith(b'{"error": {')
    assert is_our_shape or str(refused).startswith("GET /x: 404 this is not the messaging service; check the address")
    assert len(str(refused)) < 300


def test_what_a_proxy_says_for_the_service_is_shown_alone() -> None:
    for status in (401, 403, 413, 502, 503):
        assert str(errors.from_response("GET /x", status, {}, b"<p>no")) == f"GET /x: {status} <p>no"


def test_what_was_never_sent_is_not_in_doubt() -> None:
    assert not errors.Unreachable("x").in_doubt
    assert errors.TimedOut("x", seconds=1).in_doubt
    assert errors.Disconnected("x").in_doubt
