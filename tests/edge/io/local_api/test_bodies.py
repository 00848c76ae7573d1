"""The account that the agent gives is the one that the document describes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge import agent_status
from fairlead_edge.io.local_api import agent_account, bodies, operations
from fairlead_edge.link_state import LinkState
from fairlead_edge.outbox import publishing
from fairlead_wire.delivery_policy import DeliveryPolicy


async def test_the_account_has_the_fields_of_the_document(tmp_path: Path) -> None:
    upstream = open_upstream(tmp_path / "outbox.db", FakeHub())
    await upstream.publisher.publish(body({"properties": {"priority": "0"}}))
    agent = agent_status.AgentStatus(
        node="edge-1", agent="1.2", store_epoch=1, now=5.0, link=LinkState(), held=1, commits=1, watches=0, counters={},
        outbox=await upstream.outbox.status(now=5.0), routes={}, publishing={"received": 1}, pumping={},
        delivery={"upstream": DeliveryPolicy()}, given_out={("iothub", 0): (1, 2)},
    )  # fmt: skip
    await upstream.outbox.close()
    shown = agent_status.status(agent)
    assert shown["queues"]
    read = msgspec.json.decode(msgspec.json.encode(shown), type=agent_account.AgentAccount)
    again: dict[str, Any] = msgspec.to_builtins(read)
    assert again.keys() == shown.keys()
    for part in ("link", "objects", "store"):
        assert again[part].keys() == shown[part].keys()
    assert again["queues"][0].keys() == shown["queues"][0].keys()


# ---- what the document says of bodies is what the agent reads and answers -------------------------


DOCUMENT = operations.document()
PUBLISH = jsonschema.Draft202012Validator(
    {"$ref": "#/components/schemas/PublishBody", "components": DOCUMENT["components"]}
)
SOURCES = st.one_of(
    st.sampled_from(
        ["/messages", "/Messages/modules/m/outputs/o", "/TWINchangeNotifications", "/messages/", "/messages//a",
         "/other", "messages", "/messages/a b", "/messages/\x7f", "/messages/" + "x" * 1100, "/messagesx"]
    ),
    st.from_regex(r"\A/messages(/[a-z]{1,3}){0,3}\Z"),
)  # fmt: skip
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=9)
BASE64 = st.one_of(
    st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode()),
    TEXTS,
    st.sampled_from(["A", "AA=", "AA==", "AAA=", "=", "====", "A===", "AAAA====", "AAAA="]),
)
MESSAGES = st.fixed_dictionaries(
    {"source": SOURCES},
    optional={
        "body": st.one_of(st.none(), st.integers(-5, 5), st.lists(st.booleans(), max_size=2)),
        "bodyBase64": BASE64,
        "properties": st.dictionaries(TEXTS, st.one_of(TEXTS, st.none(), st.integers(0, 3)), max_size=2),
        "systemProperties": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "unknown": st.none(),
    },
)


@pytest.mark.slow
@given(st.lists(MESSAGES, max_size=3))
def test_what_the_schema_takes_is_taken_and_nothing_else(messages: list[dict[str, Any]]) -> None:
    """So that a client made from the document is never refused as invalid, and learns of each mistake beforehand."""
    request = {"messages": messages}
    try:
        read = publishing.parse(json.dumps(request).encode())
        taken = all(isinstance(each, publishing.Submission) for each in read)
    except publishing.RequestRefused:
        taken = False
    assert PUBLISH.is_valid(request) == taken


@pytest.mark.parametrize(
    ("query", "shape"),
    [("max", bodies.Take), ("wait", bodies.Take), ("lease", bodies.Take), ("limit", bodies.DeadLetterPage)],
)
def test_limits_of_a_query_are_in_the_document(query: str, shape: type[msgspec.Struct]) -> None:
    """As numbers, though a sentence of the handler's own names them when they are passed."""
    path = "/v1/deadletters" if shape is bodies.DeadLetterPage else "/v1/modules/{module}/inputs/{input}/messages"
    [found] = [each for each in DOCUMENT["paths"][path]["get"]["parameters"] if each["name"] == query]
    assert found["schema"]["minimum"] < found["schema"]["maximum"]
