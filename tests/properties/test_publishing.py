"""Whatever a producer sends: a refusal with a reason, or messages the hub can read byte for byte."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.edges.upstream import PropertyRouter

from fairlead_edge.outbox import envelope, publishing
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.publishing import RequestRefused
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.message import UpstreamMessage

texts = st.text(st.characters(exclude_categories=()), max_size=12)  # lone surrogates among them
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
properties = st.dictionaries(
    texts.filter(lambda name: name not in ("endpoint", "priority", "ttl")), st.none() | texts, max_size=3
)
submissions = st.fixed_dictionaries(
    {"source": st.sampled_from(["/messages", "/messages/modules/m", "nonsense"]) | texts},
    optional={
        "body": values,
        "bodyBase64": st.binary(max_size=20).map(lambda content: base64.b64encode(content).decode()) | texts,
        "properties": properties | values,
        "systemProperties": properties,
    },
)


def publish(content: bytes) -> list[UpstreamMessage]:
    """Through parse, plan and the link's frame; refusals are fine, anything else that is raised is not."""
    try:
        parsed = publishing.parse(content)
    except RequestRefused as refused:
        assert str(refused)
        return []
    plan = publishing.plan(parsed, PropertyRouter(), new_id=lambda: "id", enqueued_at="t")
    json.loads(plan.answer())
    items = [Item(offset, 1, "default/t", 0.0, None, entry.content) for offset, entry in enumerate(plan.entries)]
    return msgspec.json.decode(envelope.upstream(QueueId(UPSTREAM), items), type=list[UpstreamMessage])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_politely(content: bytes) -> None:
    """No stack trace, no crash."""
    publish(content)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(submissions, max_size=4), st.booleans())
def test_any_json_is_stored_as_the_hub_reads_it_or_refused(messages: list[Any], ascii: bool) -> None:
    """Odd text, big numbers, NaN, wrong types."""
    text = json.dumps({"messages": messages}, ensure_ascii=ascii)
    for message in publish(text.encode(errors="surrogatepass")):
        assert message.id == "id"
        assert message.body_base64 is None or base64.b64decode(message.body_base64) is not None


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(values.filter(lambda value: value == value))
def test_body_comes_out_as_it_went_in(value: Any) -> None:
    """What Python's own reader makes of it is the same at both ends."""
    text = json.dumps(value)
    found = publish(f'{{"messages":[{{"source":"/messages","body":{text}}}]}}'.encode())
    for message in found:
        assert bytes(message.body).decode() == text
