"""What Fairlead reports of itself on a system topic: one JSON document an event, in the form of CloudEvents 1.0.

    {"specversion": "1.0", "eventversion": 1, "id": "…", "source": "/fairlead/hub/…", "time": "…Z",
     "type": "dev.fairlead.object.parked", "subject": "…", "node": "edge-1",
     "datacontenttype": "application/json", "data": {…}}

Hub and ingest share it; ``eventversion`` rises when a field changes its meaning, never when one is added.  Times are
RFC 3339 in UTC.  Texts that come from peers and users are cut, contents of objects and messages never appear.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_wire.validation.mistakes import shown

VERSION = 1
TYPE_PREFIX = "dev.fairlead."
SYSTEM_NAMESPACE = "system"
"""Topics in it are Fairlead's own: no edge node is ever granted one, whatever EdgeRoutes say."""
TOPIC_DEFAULT = "system/events"
TEXT_CHARS_MAX = 1024

_encode = msgspec.json.encode


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened: ``type`` (without its prefix), to ``subject``, at ``node`` (empty: at none)."""

    type: str
    time: str
    subject: str = ""
    node: str = ""
    data: dict[str, Any] = {}


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    specversion: str
    eventversion: int
    id: str
    source: str
    type: str
    time: str
    subject: str | msgspec.UnsetType
    node: str | msgspec.UnsetType
    datacontenttype: str
    data: dict[str, Any]


def encode(event: Event, *, id: str, source: str) -> bytes:
    """The payload.  ``id`` with ``source`` never repeats; ``source`` is a path such as ``/fairlead/hub/NAME``."""
    document = _Document(
        specversion="1.0",
        eventversion=VERSION,
        id=id,
        source=source,
        type=TYPE_PREFIX + event.type,
        time=event.time,
        subject=event.subject or msgspec.UNSET,
        node=event.node or msgspec.UNSET,
        datacontenttype="application/json",
        data=event.data,
    )
    return _encode(document)


def short(text: str) -> str:
    """A text from outside, cut to ``TEXT_CHARS_MAX``."""
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def is_reserved(topic: str) -> bool:
    """Is this ``namespace/name`` one of Fairlead's own?"""
    return topic.partition("/")[0] == SYSTEM_NAMESPACE


def check_topic(topic: str) -> str:
    """Where a program's own events go: ``system/NAME``, or empty for nowhere.  Raises ``ValueError``."""
    namespace, _, name = topic.partition("/")
    if topic and (namespace != SYSTEM_NAMESPACE or not name or "/" in name):
        raise ValueError(f"must be {SYSTEM_NAMESPACE}/NAME, or empty for no events, is {shown(topic)}")
    return topic
