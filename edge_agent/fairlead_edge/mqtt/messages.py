"""Converts a PUBLISH into a message to store, and a stored message into what a subscriber gets."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.mqtt import topics
from fairlead_edge.mqtt.codec import Id
from fairlead_edge.mqtt.packets import LEVEL_5, PublishPacket
from fairlead_edge.mqtt.topics import Destination
from fairlead_edge.outbox import authorship, envelope, publishing
from fairlead_edge.outbox.authorship import Author
from fairlead_edge.outbox.publishing import RefusalReason, Submission
from fairlead_wire.validation import mqtt_text

_CONTENT_TYPE = "contentType"
_CORRELATION = "correlationId"


def content(message: PublishPacket, author: Author, *, node: str, other_topics: bool) -> Submission | RefusalReason:
    """The message to store for a PUBLISH, or why it is refused."""
    destination = topics.destination(message.topic, node=node, other_topics=other_topics)
    return destination if isinstance(destination, RefusalReason) else submission(message, destination, author)


def submission(message: PublishPacket, destination: Destination, author: Author) -> Submission | RefusalReason:
    """The message with its author's stamp, or why it is refused."""
    wrong = publishing.source_wrong(destination.source)
    if wrong is not None:
        return wrong
    properties, system = destination.properties, destination.system_properties
    if text := mqtt_text.wrong_in(properties, system):
        return RefusalReason("bad_message", text)
    if message.properties.user:
        properties = {**properties, **dict(message.properties.user)}
    if message.properties.values:
        system = {**system, **_of_level_5(message)}
    unsigned = Submission(
        source=destination.source, properties=properties, system_properties=system, **_body(message.payload, system)
    )
    if destination.is_other and author.module:
        return authorship.attributed(unsigned, module=author.module, node=author.node)
    return authorship.stamped(unsigned, module=author.module, node=author.node, has_token=author.has_token)


def refused_message(message: PublishPacket, id: str, at: str) -> envelope.StoredMessage:
    """The dead letter of a message that was refused permanently; its topic is in a system property."""
    return envelope.StoredMessage(
        id=id,
        source=topics.OTHER_SOURCES,
        enqueued_at=at,
        properties=dict(message.properties.user),
        system_properties={"mqttTopic": message.topic},
        body_base64=base64.b64encode(message.payload).decode(),
    )


def payload(message: envelope.StoredMessage) -> bytes:
    """The body as its publisher sent it."""
    if isinstance(message.body_base64, str):
        return base64.b64decode(message.body_base64)
    return bytes(message.body) if isinstance(message.body, msgspec.Raw) else b""


def delivered_properties(
    message: envelope.StoredMessage, level: int
) -> tuple[list[tuple[Id, Any]], list[tuple[str, str]]]:
    """Properties for a subscriber of level 5; a property without a value becomes empty text.

    The codec replaces characters that may make a client close its connection (``is_changed``).
    """
    if level != LEVEL_5:
        return [], []
    system = {ascii_case.folded(name): value for name, value in message.system_properties.items()}
    correlation = system.get(ascii_case.folded(_CORRELATION))
    values: list[tuple[Id, Any]] = [
        (Id.CONTENT_TYPE, system.get(ascii_case.folded(_CONTENT_TYPE))),
        (Id.CORRELATION_DATA, correlation.encode() if correlation else None),
    ]
    return values, [(name, value or "") for name, value in message.properties.items()]


def is_changed(message: envelope.StoredMessage) -> bool:
    """Whether a property has characters that the codec replaces with U+FFFD."""
    kind = next((value for name, value in message.system_properties.items() if _is_content_type(name)), None)
    texts = (kind or "", *message.properties, *(value or "" for value in message.properties.values()))
    return any(mqtt_text.safe(text) != text for text in texts)


def _is_content_type(name: str) -> bool:
    return ascii_case.same(name, _CONTENT_TYPE)


def _of_level_5(message: PublishPacket) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    if (kind := message.properties.get(Id.CONTENT_TYPE)) is not None:
        found[_CONTENT_TYPE] = kind
    if (correlation := message.properties.get(Id.CORRELATION_DATA)) is not None:
        # A property must be valid UTF-8.
        with contextlib.suppress(UnicodeDecodeError):
            found[_CORRELATION] = correlation.decode()
    return found


def _body(content: bytes, system: dict[str, str | None]) -> dict[str, Any]:
    """The body as JSON if it is valid and not declared as something else; otherwise as base64."""
    if publishing.may_be_json(system) and publishing.is_json_text(content):
        return {"body": msgspec.Raw(content.strip())}
    return {"body_base64": base64.b64encode(content).decode()}
