"""What a request brings, what is stored of it, and what is found when messages leave."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.spans import place

from fairlead_edge.outbox import publishing, traces
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.publishing import MESSAGE_BYTES_MAX, RefusalReason, Submission
from fairlead_wire.traces.trace import LATE_SECONDS, LINKS_MAX, Trace

SOURCE = "/messages/modules/m"


def read(*messages: dict[str, Any]) -> list[Submission | RefusalReason]:
    content = {"messages": [{"source": SOURCE, "body": 1, **each} for each in messages]}
    return publishing.parse(json.dumps(content).encode())


def carrying(place: Trace) -> dict[str, Any]:
    return {"properties": {"traceparent": str(place), "kind": "a"}}


def properties(found: list[Submission | RefusalReason]) -> list[Any]:
    return [each.properties.get("traceparent") for each in found if isinstance(each, Submission)]


def test_the_header_counts_for_the_whole_request() -> None:
    came = traces.incoming(read({}, carrying(place(2))), str(place(1)), "vendor=x")
    assert (came.first, came.others, came.tracestate) == (place(1), (place(2),), "vendor=x")


def test_without_a_header_the_first_sampled_message_decides() -> None:
    came = traces.incoming(read({}, carrying(place(2, sampled=False)), carrying(place(3))), None, "vendor=x")
    assert (came.first, came.others, came.tracestate) == (place(3), (), "")
    unsampled = traces.incoming(read({}), str(place(1, sampled=False)), None)
    assert unsampled.first == place(1, sampled=False)
    own = traces.incoming(read({}, carrying(place(2, sampled=False))), None, None)
    assert own.first == place(2, sampled=False), "who began the trace decided that it is not recorded"
    assert traces.incoming(read({}), "nonsense", None).first is None


def test_links_are_bounded() -> None:
    came = traces.incoming(read(*(carrying(place(number)) for number in range(1, 100))), None, None)
    assert len(came.others) == LINKS_MAX - 1


def test_each_message_of_the_trace_gets_the_span_of_its_publish() -> None:
    """A message of another trace keeps its own trace."""
    span = Trace(place(1).trace_id, place(77).span_id)
    unsampled = place(3, sampled=False)
    submissions = [
        *read({}, carrying(place(1)), carrying(place(2)), carrying(unsampled)),
        RefusalReason("bad_message", "no"),
    ]
    came = traces.incoming(submissions, str(place(1)), "vendor=x")
    found = traces.recorded(submissions, came, span)
    assert properties(found) == [str(span), str(span), str(place(2)), str(unsampled)]
    assert found[-1] == submissions[-1]
    first, second = found[0], found[1]
    assert isinstance(first, Submission) and isinstance(second, Submission)
    assert first.properties["tracestate"] == "vendor=x"
    assert second.properties["kind"] == "a", "what else it carries stays"


def test_a_trace_makes_no_message_too_large() -> None:
    [largest] = read({"body": "x" * (MESSAGE_BYTES_MAX - 300)})
    came = traces.incoming([largest], str(place(1)), None)
    assert traces.recorded([largest], came, place(1)) == [largest]


def test_over_the_ceiling_the_trace_stays_named_and_is_not_sampled_any_more() -> None:
    submissions = read({}, carrying(place(2)))
    assert properties(traces.not_recorded(submissions)) == [None, str(place(2, sampled=False))]


def test_content_that_cannot_be_read_has_no_trace() -> None:
    """It is sent unchanged; unreadable content must not stop the agent."""
    damaged = Item(offset=1, epoch=1, topic="a/b", enqueued=0.0, expires=None, content=b'{"traceparent":"')
    assert traces.leaving([damaged, item({**carrying(place(1)), "body": 1})], 0.0) == ([place(1)], set())


def item(body: dict[str, Any], *, enqueued: float = 0.0) -> Item:
    content = json.dumps(
        {"id": "1", "source": SOURCE, "enqueuedAt": "", "properties": {}, "systemProperties": {}, **body},
        separators=(",", ":"),
    ).encode()
    return Item(offset=1, epoch=1, topic="a/b", enqueued=enqueued, expires=None, content=content)


def test_what_leaves_is_found_by_its_property_alone() -> None:
    in_body = item({"body": {"traceparent": str(place(9))}})
    plain, unsampled = item({"body": 1}), item({**carrying(place(8, sampled=False)), "body": 1})
    origins, late = traces.leaving([plain, in_body, unsampled, item({**carrying(place(1)), "body": 1})], 0.0)
    assert (origins, late) == ([place(1)], set())


@pytest.mark.parametrize(("age", "is_late"), [(LATE_SECONDS, False), (LATE_SECONDS + 1, True)])
def test_what_waited_long_is_late(age: float, is_late: bool) -> None:
    _, late = traces.leaving([item({**carrying(place(1)), "body": 1}, enqueued=100.0)], 100.0 + age)
    assert late == ({place(1)} if is_late else set())
