"""What topics and topic filters mean on this node: the source of a published message, the input of a subscription.

    fairlead/{m}/{output}                                   /messages/modules/{m}/outputs/{output}
    devices/{node}/modules/{m}/messages/events/{bag}        the same with ``$.on={output}``; else /messages/modules/{m}
    devices/{device}/messages/events/{bag}                  /messages, with the device's name
    any other, if ``other_topics`` is set                   /messages/mqtt/{topic}

    fairlead/{m}/inputs/{input}                             that input of module m
    devices/{node}/modules/{m}/inputs/{input}, or inputs/#  that input, or all of module m's

A property bag is what Azure IoT's clients append to a topic: URL-encoded properties; names that begin with ``$.`` are
the message's system properties.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.mqtt.limits import FILTER_CHARS_MAX
from fairlead_edge.mqtt.reasons import Code
from fairlead_edge.outbox import authorship, envelope
from fairlead_edge.outbox.publishing import RefusalReason

OWN: Final = "fairlead"
OTHER_SOURCES: Final = "/messages/mqtt"
WILDCARDS: Final = frozenset("+#")
RESERVED: Final = "$"
"""Topics with this prefix are reserved for servers, and refused here."""
SHARED: Final = "$share/"
OUTPUT: Final = "$.on"
_SYSTEM: Final = {
    "$.mid": "messageId",
    "$.cid": "correlationId",
    "$.uid": "userId",
    "$.to": "to",
    "$.ct": "contentType",
    "$.ce": "contentEncoding",
    "$.ctime": "creationTimeUtc",
    "$.cdid": authorship.DEVICE,
    "$.cmid": authorship.MODULE,
}
_SHORT: Final = {ascii_case.folded(name): short for short, name in _SYSTEM.items()}


class Destination(msgspec.Struct, frozen=True):
    """Where a message comes from, as routes see it, and the properties in its topic.

    ``is_other``: a topic that names no module; the client's own name is put on the message.
    """

    source: str
    properties: dict[str, str | None] = {}
    system_properties: dict[str, str | None] = {}
    is_other: bool = False


class InputFilter(msgspec.Struct, frozen=True):
    """What a subscription selects: one input of a module, or "" for all of them."""

    filter: str
    module: str
    input: str
    original: bool
    """Whether messages are delivered on ``devices/…`` topics, with a property bag."""


def destination(topic: str, *, node: str, other_topics: bool) -> Destination | RefusalReason:
    """The destination of a published message, or why it is refused."""
    if not topic or not WILDCARDS.isdisjoint(topic):
        return RefusalReason("bad_source", "the topic of a message must not be empty or have + or #")
    if topic.startswith(RESERVED):
        return RefusalReason("bad_source", f"topics that begin with {RESERVED} are not supported")
    parts = topic.split("/")
    if parts[0] == OWN:
        if len(parts) == 3 and all(parts):
            return Destination(f"{authorship.own_source(parts[1])}/outputs/{parts[2]}")
        return RefusalReason("bad_source", f"a topic here is {OWN}/<module>/<output>")
    if parts[0] == "devices":
        return _original(parts, node)
    if other_topics:
        return Destination(f"{OTHER_SOURCES}/{topic}", is_other=True)
    return RefusalReason(
        "bad_source", f"publish to {OWN}/<module>/<output>; other topics need [mqtt] other_topics = true"
    )


def inputs(filter: str, *, node: str) -> InputFilter | Code:
    """The input of a topic filter, or the code with which it is refused."""
    if len(filter) > FILTER_CHARS_MAX:
        return Code.TOPIC_FILTER_INVALID
    if filter.startswith(SHARED):
        return Code.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    parts = filter.split("/")
    if len(parts) == 4 and parts[0] == OWN and parts[2] == "inputs":
        found = InputFilter(filter, parts[1], parts[3], False)
    elif len(parts) == 6 and parts[:3] == ["devices", node, "modules"] and parts[4] == "inputs":
        if parts[5] == "#" and parts[3] and WILDCARDS.isdisjoint(parts[3]):
            return InputFilter(filter, parts[3], "", True)
        found = InputFilter(filter, parts[3], parts[5], True)
    else:
        return Code.TOPIC_FILTER_INVALID if WILDCARDS.isdisjoint(filter) else Code.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    if not WILDCARDS.isdisjoint(filter):
        return Code.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    return found if found.module and found.input else Code.TOPIC_FILTER_INVALID


def delivery_topic(inputs: InputFilter, input: str, message: envelope.StoredMessage, node: str) -> str:
    """The topic on which a message for this input is delivered to its subscriber."""
    if not inputs.original:
        return f"{OWN}/{inputs.module}/inputs/{input}"
    given = message.system_properties
    system = {_SHORT.get(ascii_case.folded(name), f"$.{name}"): value for name, value in given.items()}
    system.setdefault("$.mid", message.id)
    return f"devices/{node}/modules/{inputs.module}/inputs/{input}/{_bag({**message.properties, **system})}"


def _original(parts: list[str], node: str) -> Destination | RefusalReason:
    device = parts[1] if len(parts) > 1 else ""
    if parts[2:3] == ["modules"] and parts[4:6] == ["messages", "events"]:
        if device != node:
            return RefusalReason("bad_source", f"this is node {node}, not {device[:80]}")
        module, found = parts[3], _properties("/".join(parts[6:]))
        if isinstance(found, RefusalReason):
            return found
        properties, system = found
        output = system.pop(OUTPUT, None)
        source = authorship.own_source(module)
        if output is not None:
            if not output or "/" in output:
                return RefusalReason("bad_source", f"{OUTPUT}: the name of an output must not be empty or have a /")
            source = f"{source}/outputs/{output}"
        return Destination(source, properties, _named(system))
    if device and parts[2:4] == ["messages", "events"]:
        found = _properties("/".join(parts[4:]))
        if isinstance(found, RefusalReason):
            return found
        properties, system = found
        system.pop(OUTPUT, None)
        return Destination(authorship.LEAF_SOURCE, properties, {**_named(system), authorship.DEVICE: device})
    return RefusalReason("bad_source", "a topic of a device must end with messages/events/<properties>")


_Properties = tuple[dict[str, str | None], dict[str, str | None]]


def _properties(bag: str) -> _Properties | RefusalReason:
    """Application properties, and system properties under the names they have in a bag."""
    properties: dict[str, str | None] = {}
    system: dict[str, str | None] = {}
    for each in filter(None, bag.strip("/").removeprefix("?").split("&")):
        name, has_value, value = each.partition("=")
        try:
            name, value = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError:
            return RefusalReason("bad_message", "the properties after the topic are not UTF-8")
        found = system if name.startswith(RESERVED) else properties
        found[name] = value if has_value else None
    return properties, system


def _named(system: dict[str, str | None]) -> dict[str, str | None]:
    return {_SYSTEM.get(name, name.removeprefix("$.")): value for name, value in system.items()}


def _bag(properties: dict[str, str | None]) -> str:
    return "&".join(
        quote(name, safe="$.") if value is None else f"{quote(name, safe='$.')}={quote(value, safe='')}"
        for name, value in properties.items()
    )
