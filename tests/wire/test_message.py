"""The headers' shape on the wire: other programs may read it."""

import msgspec
import pytest

from fairlead_wire import message


def test_every_verb_has_one_meaning_and_travels_one_way_or_both():
    """No two headers share a verb; ack, nack and keepalive are the only ones both may send."""
    edge = {header.__struct_config__.tag for header in message.FromEdge.__args__}
    hub = {header.__struct_config__.tag for header in message.FromHub.__args__}
    assert edge & hub == {"ack", "nack", "keepalive"}
    assert len(edge) == len(message.FromEdge.__args__)
    assert len(hub) == len(message.FromHub.__args__)


def test_an_upstream_message_carries_its_body_raw():
    """The body is not decoded and encoded again on its way."""
    text = (
        b'{"id":"a","topic":"default/telemetry","epoch":1,"sequence":2,"source":"/messages","priority":0,'
        b'"enqueuedAt":"2026-11-20T00:00:00Z","body":{ "x" : 1.10 }}'
    )
    decoded = msgspec.json.decode(text, type=message.UpstreamMessage)
    assert bytes(decoded.body) == b'{ "x" : 1.10 }'
    assert decoded.properties == {}


def test_headers_are_frozen():
    """What travels is a fact."""
    with pytest.raises(AttributeError):
        message.Keepalive().operation = "x"  # type: ignore[attr-defined]


def test_an_entry_is_an_array():
    """Thousands of entries travel without their field names."""
    entry = message.Entry("api/v1/nodes/x", "u", "d", "7")
    assert msgspec.json.encode(entry) == b'["api/v1/nodes/x","u","d","7"]'
