"""What MQTT clients send to the agent: whole connections, in any pieces."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.target import Target, promise
from tests.support.edges import mqtt_packets as client

from fairlead_edge.mqtt import topics
from fairlead_edge.mqtt.client import ClientAdmission
from fairlead_edge.mqtt.limits import RECEIVE_MAXIMUM, SUBSCRIPTIONS_MAX, SessionLimits
from fairlead_edge.mqtt.packets import Connect
from fairlead_edge.mqtt.session import MqttSession, Opening, PublishOutcome, Subscribed
from fairlead_edge.outbox import publishing
from fairlead_edge.outbox.authorship import Author, module_of
from fairlead_edge.outbox.publishing import RefusalReason, Submission

LIMITS = SessionLimits(node="edge-1", packet_bytes_max=16_384, session_seconds_max=7200, other_topics=True)


class _Host:
    def __init__(self, module: str) -> None:
        self._author = Author(module=module, node="edge-1", has_token=lambda name: name == "till")

    def identify(self, connect: Connect) -> Opening:
        found = ClientAdmission("edge-1", False).admit(connect, None, "new")
        return Opening(client=found, author=self._author, clean=connect.clean, expiry_seconds=0)

    def open(self, opening: Opening) -> Sequence[Subscribed] | None:
        return None


def talk(content: bytes) -> None:
    """A connection ends, or goes on; what it stores is the author's own, and what it answers are packets."""
    for module in ("", "filter"):
        whole = _told(module, [content])
        promise(
            _told(module, [content[at : at + 7] for at in range(0, len(content), 7)]) == whole, "pieces are no matter"
        )


def _told(module: str, pieces: Sequence[bytes]) -> list[tuple[int, int]]:
    session = MqttSession(LIMITS, _Host(module), now=0.0)
    answers, outcomes = b"", list[PublishOutcome]()
    for piece in pieces:
        session.receive(piece, 0.0)
        todo = session.take()
        answers += todo.write
        for each in todo.received:
            if isinstance(each.content, Submission):
                promise(publishing.source_wrong(each.content.source) is None, "its source is one")
                named = module_of(each.content.source).lower()
                promise(named in ("", module.lower()) if module else named != "till", "no module speaks for another")
        outcomes += [PublishOutcome(each.message) for each in todo.received]
        promise(session.unacknowledged <= RECEIVE_MAXIMUM or session.level == 4, "its window holds")
        promise(len(session.subscriptions) <= SUBSCRIPTIONS_MAX, "its subscriptions are bounded")
        if session.is_over:
            break
    session.stored(outcomes)
    found, rest = client.split(answers + session.take().write)
    promise(rest == b"", "whole packets are answered")
    return [(each.kind, each.flags) for each in found]


def topic(content: bytes) -> None:
    text = content.decode()
    for other in (False, True):
        found = topics.destination(text, node="edge-1", other_topics=other)
        promise(isinstance(found, RefusalReason) or found.source.startswith("/messages"), "a source, or why not")
    topics.inputs(text, node="edge-1")


TARGETS = (
    Target(
        name="mqtt-connection",
        says="What an MQTT client sends over one connection.",
        read=talk,
        refusals=(),
        shape="bytes",
        words=(
            client.PINGREQ,
            client.BYE,
            client.connect(),
            client.connect(level=5),
            client.publish("fairlead/till/o"),
        ),
    ),
    Target(
        name="mqtt-topic",
        says="A topic of an MQTT client.",
        read=topic,
        refusals=(UnicodeDecodeError,),
        shape="text",
        words=(b"fairlead/", b"devices/edge-1/modules/m/", b"messages/events/", b"$.on=", b"inputs/#", b"%2F", b"&"),
    ),
)
