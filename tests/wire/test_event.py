"""What programs tell of themselves, as it lies in the topic."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from fairlead_wire import event
from fairlead_wire.event import EVENT_TYPES, Event


def test_an_event_is_a_cloud_event():
    """The fields every reader of CloudEvents 1.0 knows, and the node and a version beside them."""
    sent = Event(type="node.away", time="2026-11-22T08:00:00Z", node="edge-1", subject="edge-1", data={"reason": "x"})
    assert json.loads(event.encode(sent, id="7-1", source="/fairlead/hub/h")) == {
        "specversion": "1.0",
        "eventversion": 1,
        "id": "7-1",
        "source": "/fairlead/hub/h",
        "type": "dev.fairlead.node.away",
        "time": "2026-11-22T08:00:00Z",
        "subject": "edge-1",
        "node": "edge-1",
        "datacontenttype": "application/json",
        "data": {"reason": "x"},
    }


def test_an_event_of_no_node_names_none():
    document = json.loads(event.encode(Event(type="hub.started", time="t"), id="1", source="/s"))
    assert "node" not in document and "subject" not in document


def test_a_peers_text_is_cut():
    assert event.short("x" * 1024) == "x" * 1024
    assert len(event.short("x" * 100_000)) == event.TEXT_CHARS_MAX


@pytest.mark.parametrize(
    ("topic", "reserved"), [("system/events", True), ("systems/events", False), ("default/system", False)]
)
def test_the_system_namespace_is_reserved(topic, reserved):
    assert event.is_reserved(topic) is reserved


@pytest.mark.parametrize("topic", ["default/events", "system/", "system/a/b", "events", "/events"])
def test_events_go_to_the_system_namespace_only(topic):
    """A topic that edges may write to is never believed as a system topic."""
    with pytest.raises(ValueError, match=r"^must be system/NAME"):
        event.check_topic(topic)


def test_no_topic_means_no_events():
    event.check_topic("")
    event.check_topic(event.TOPIC_DEFAULT)


# ---- the list of event types is what hub and ingest publish ----

ROOT = Path(__file__).resolve().parents[2]
PUBLISHERS = {
    "hub": ROOT / "operator" / "fairlead_hub" / "events" / "cloud_events.py",
    "ingest": ROOT / "ingest" / "fairlead_ingest" / "pipeline" / "events.py",
}


def published(path: Path) -> set[str]:
    """Texts like `node.away` in a publisher's code."""
    texts = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return {
        text
        for text in texts
        if isinstance(text, str) and text.count(".") == 1 and text.replace(".", "").replace("_", "").isalpha()
    }


def test_every_published_type_is_listed_and_no_other() -> None:
    for publisher, path in PUBLISHERS.items():
        assert {each.name for each in EVENT_TYPES if each.publisher == publisher} == published(path), path.name
