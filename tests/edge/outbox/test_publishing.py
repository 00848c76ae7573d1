"""A producer's request as messages: defaults, bodies, limits, and what is routed."""

from __future__ import annotations

import base64
import json
from itertools import count
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import PropertyRouter, target

from fairlead_edge.outbox import envelope, publishing
from fairlead_edge.outbox.publishing import AcceptancePlan, NotAccepted, RefusalReason, RequestRefused, Submission
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.router import RouteTarget
from fairlead_edge.routes.message import RoutedMessage

AT = "2026-11-20T12:00:00.000Z"


class Remembering:
    """A router that records its calls and routes everything upstream."""

    def __init__(self) -> None:
        self.asked: list[tuple[RoutedMessage, str]] = []

    def route(self, message: RoutedMessage, source: str) -> list[RouteTarget]:
        self.asked.append((message, source))
        return [target()]

    def hold(self, message: RoutedMessage, source: str) -> None:
        return None


def request(*messages: dict[str, Any]) -> bytes:
    return json.dumps({"messages": [{"source": "/messages", **each} for each in messages]}).encode()


def plan(content: bytes, router: publishing.MessageRouter | None = None) -> AcceptancePlan:
    numbers = count(1)
    return publishing.plan(
        publishing.parse(content), router or PropertyRouter(), new_id=lambda: f"id-{next(numbers)}", enqueued_at=AT
    )


def stored(content: bytes) -> envelope.StoredMessage:
    [entry] = plan(content).entries
    return envelope.read(entry.content)


def test_json_body_implies_its_type_and_encoding() -> None:
    assert stored(request({"body": {"a": 1}})).system_properties == {
        "contentType": "application/json",
        "contentEncoding": "utf-8",
    }


def test_given_type_and_encoding_stay_in_any_case() -> None:
    given = {"contenttype": "text/plain", "ContentEncoding": "utf-16", "userId": "u"}
    assert stored(request({"body": 1, "systemProperties": given})).system_properties == given


def test_base64_body_implies_nothing() -> None:
    message = stored(request({"bodyBase64": "AP8="}))
    assert (message.system_properties, message.body_base64, message.body) == ({}, "AP8=", msgspec.UNSET)


def test_base64_body_declared_as_json_goes_on_as_json() -> None:
    body = base64.b64encode(b' {"a": 1} ').decode()
    declared = {"contentType": "Application/JSON", "contentEncoding": "UTF-8"}
    message = stored(request({"bodyBase64": body, "systemProperties": declared}))
    assert isinstance(message.body, msgspec.Raw) and bytes(message.body) == b'{"a": 1}'
    assert stored(request({"bodyBase64": body})).body_base64 == body


@pytest.mark.parametrize("content", [b"not json", b"\xff", b"[" * 500 + b"]" * 500])
def test_base64_body_that_is_not_the_json_it_is_declared_to_be_stays_bytes(content: bytes) -> None:
    body = base64.b64encode(content).decode()
    declared = {"contentType": "application/json", "contentEncoding": "utf-8"}
    assert stored(request({"bodyBase64": body, "systemProperties": declared})).body_base64 == body


@pytest.mark.parametrize("body", [None, 0, 12345678901234567890123, 1.10, "text", [], {"ü": "\u2028"}, True])
def test_body_goes_on_exactly_as_it_came(body: Any) -> None:
    """Big numbers, null, any text: the bytes of the body are never decoded and encoded again."""
    text = json.dumps(body, ensure_ascii=False)
    message = stored(b'{"messages":[{"source":"/messages","body":' + text.encode() + b"}]}")
    assert isinstance(message.body, msgspec.Raw) and bytes(message.body) == text.encode()


def test_router_sees_body_and_properties() -> None:
    router = Remembering()
    plan(request({"body": {"t": 1}, "properties": {"P": None}}), router)
    plan(request({"body": {"t": 1}, "systemProperties": {"contentEncoding": "utf-16"}}), router)
    plan(request({"bodyBase64": "AP8="}), router)
    [(first, source), (second, _), (third, _)] = router.asked
    assert (first.document, first.properties, source) == ({"t": 1}, {"p": None}, "/messages")
    assert second.document == {"t": 1}
    assert third.body == b"\x00\xff"


def test_entries_carry_what_the_routes_said() -> None:
    [entry] = plan(
        request({"body": 1, "properties": {"endpoint": "iothub,edge-1/m/i", "priority": "3", "ttl": "9"}})
    ).entries
    assert [(reference.queue, reference.ttl_seconds, reference.topic) for reference in entry.references] == [
        (QueueId("iothub", 3), 9, "default/telemetry"),
        (QueueId("edge-1/m/i", 3), 9, "default/telemetry"),
    ]
    assert envelope.read(entry.content).id == entry.id == "id-1"


def test_answer_keeps_order_and_counts_what_had_no_route() -> None:
    planned = plan(
        request({"body": 1}, {"body": 1, "source": "bad"}, {"body": 1, "properties": {"endpoint": "nowhere"}})
    )
    results = json.loads(planned.answer())["results"]
    assert [list(result) for result in results] == [["id", "deliveries"], ["error"], ["id", "deliveries"]]
    assert planned.no_route == 1 and planned.refusal is None and len(planned.entries) == 1


def test_refusal_is_the_first_reason_when_nothing_was_accepted() -> None:
    planned = plan(request({"body": 1, "source": "bad"}, {}))
    assert planned.refusal is not None and planned.refusal.code == "bad_source"
    assert "characters, but is '" in planned.refusal.message
    answer = json.loads(planned.answer())
    assert answer["error"] == answer["results"][0]["error"]


@pytest.mark.parametrize(
    ("source", "is_source"),
    [
        ("/messages", True),
        ("/messages/modules/m", True),
        ("/messages/modules/m/outputs/o", True),
        ("/Messages/Modules/m/outputs/o.1-x_y$", True),
        ("/twinChangeNotifications", True),
        ("/messages/leaf/temp*", True),
        ("", False),
        ("/", False),
        ("messages", False),
        ("/messages/", False),
        ("/message", False),
        ("/messages//x", False),
        ("/messages/a b", False),
        ("/messages/\x00", False),
        ("/messages/" + "x" * 1024, False),
    ],
)
def test_sources(source: str, is_source: bool) -> None:
    [found] = publishing.parse(request({"source": source, "body": 1}))
    assert isinstance(found, Submission) is is_source
    assert is_source or (isinstance(found, RefusalReason) and found.code == "bad_source")


def test_message_over_the_limit_is_refused_alone() -> None:
    planned = plan(request({"body": "x" * publishing.MESSAGE_BYTES_MAX}, {"body": 1}))
    assert isinstance(planned.results[0], NotAccepted) and planned.results[0].error.code == "too_large"
    assert len(planned.entries) == 1


def test_too_many_messages_are_too_large() -> None:
    with pytest.raises(RequestRefused) as refused:
        publishing.parse(request(*[{"body": 1}] * (publishing.REQUEST_MESSAGES_MAX + 1)))
    assert refused.value.too_large


def test_brackets_in_text_do_not_count_as_nesting() -> None:
    publishing.parse(request({"body": "[" * 5000 + '\\"{'}, {"body": [[1]] * 5000}))
    deep = b'{"a":' * 201 + b"1" + b"}" * 201
    [reason, other] = publishing.parse(
        b'{"messages":[{"source":"/messages","body":' + deep + b'},{"source":"/messages","body":1}]}'
    )
    assert isinstance(reason, RefusalReason) and "nested" in reason.message
    assert isinstance(other, Submission)


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb"])
def test_bad_idempotency_keys(key: str) -> None:
    with pytest.raises(RequestRefused):
        publishing.check_key(key)


SURROGATES = [
    rb'{"source": "/messages", "body": "\ud800"}',
    rb'{"source": "/messages", "body": {"a": "\udc00x"}}',
    rb'{"source": "/messages", "properties": {"\ud800\ud83d\ude00": "b"}, "body": 1}',
]


@pytest.mark.parametrize("bad", SURROGATES)
def test_half_a_surrogate_pair_refuses_its_own_message_alone(bad: bytes) -> None:
    good = rb'{"source": "/messages", "body": "\ud83d\ude00 \\ud800"}'
    found = publishing.parse(b'{"messages": [' + b" , ".join([good, bad, good, bad, good]) + b"]}")
    assert [isinstance(each, Submission) for each in found] == [True, False, True, False, True]
    assert isinstance(found[4], Submission) and isinstance(found[4].body, msgspec.Raw)
    assert bytes(found[4].body) == rb'"\ud83d\ude00 \\ud800"'
    assert isinstance(found[1], RefusalReason)
    assert (found[1].code, "half of a surrogate pair" in found[1].message) == ("bad_message", True)


@pytest.mark.parametrize("more", ['"properties": {"a": "\\u0000"}', '"systemProperties": {"contentType": "\\u0000"}'])
def test_what_no_subscriber_over_mqtt_can_get_refuses_its_own_message(more: str) -> None:
    good = '{"source": "/messages", "properties": {"a": "\\n"}, "body": "\\u0000"}'
    found = publishing.parse(f'{{"messages": [{good}, {{"source": "/messages", "body": 1, {more}}}]}}'.encode())
    assert isinstance(found[0], Submission) and isinstance(found[1], RefusalReason)
    assert (found[1].code, "contains U+0000" in found[1].message) == ("bad_message", True)
