"""The headers' shape on the wire: other programs may read it."""

from typing import Any

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
    entry = message.HeldEntry("api/v1/nodes/x", "u", "d", "7")
    assert msgspec.json.encode(entry) == b'["api/v1/nodes/x","u","d","7"]'


@pytest.mark.parametrize(
    "text",
    [
        b'{"operation":"ack","parentID":-1}',
        b'{"operation":"ack","parentID":100000000000000000000}',
        b'{"operation":"nack","parentID":1,"code":"x","reason":"","retryAfter":-5}',
        b'{"operation":"nack","parentID":1,"code":"x","reason":"","retryAfter":1e300}',
        b'{"operation":"progress","parentID":1,"chunks":1e300}',
        b'{"operation":"upstream","id":1,"stream":"%s"}' % (b"s" * 300),
        b'{"operation":"hello","node":"n","agent":"a","storeEpoch":1,"fence":9007199254740993,"bits":0,"held":0,"root":""}',
        b'{"operation":"hello","node":"n","agent":"%s","storeEpoch":1,"fence":0,"bits":0,"held":0,"root":""}'
        % (b"a" * 300),
    ],
)
def test_numbers_and_names_that_cannot_be_are_refused(text):
    """What is parsed has a limit: code further in never meets a negative id or a fence beyond 2**53."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=message.FromEdge)


@pytest.mark.parametrize("field", ["held", "deadLetters", "storeBytes"])
def test_an_account_fits_into_64_bits(field):
    """It is written into a status, which the API server refuses as a whole otherwise."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"held":0,"%s":99999999999999999999}' % field.encode(), type=message.EdgeStatus)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"operation": "ack", "parentID": 1}, message.Ack(parent_id=1)),
        (
            {"operation": "nack", "parentID": 1, "code": "c", "reason": "r"},
            message.Nack(parent_id=1, code="c", reason="r"),
        ),
    ],
)
def test_answers_of_older_and_newer_hubs_are_read(header, expected):
    """An older one says neither scope nor how long it had a batch; what a newer one adds is passed over."""
    decoder = msgspec.json.Decoder(message.Ack | message.Nack)
    assert decoder.decode(msgspec.json.encode(header)) == expected
    assert decoder.decode(msgspec.json.encode({**header, "saidByANewerHub": [1]})) == expected
    assert b"scope" not in msgspec.json.encode(expected) and b"held" not in msgspec.json.encode(expected)


class UpdateBefore(message.Header, frozen=True, kw_only=True, tag="update"):
    """What a peer before 0.2 knows of an update."""

    id: int
    resource: str
    uid: str
    resource_version: str
    digest: str
    encoding: message.Encoding = ""
    chunks: int = 0


class UpstreamBefore(message.Header, frozen=True, kw_only=True, tag="upstream"):
    """And of a batch."""

    id: int
    stream: str
    encoding: message.Encoding = ""
    follows: bool = False


def test_earlier_peers_pass_over_a_trace_and_are_understood():
    """In both directions of both headers that carry one."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    update = {
        "id": 1,
        "resource": "api/v1/namespaces/s/configmaps/a",
        "uid": "u",
        "resource_version": "7",
        "digest": "d",
    }
    batch = {"id": 1, "stream": "iothub_0", "follows": True}
    pairs: list[tuple[Any, Any, dict[str, Any]]] = [
        (message.Update, UpdateBefore, update),
        (message.Upstream, UpstreamBefore, batch),
    ]
    for new, old, fields in pairs:
        sent = msgspec.json.encode(new(**fields, traceparent=trace))
        assert msgspec.json.decode(sent, type=old) == old(**fields)
        assert msgspec.json.decode(msgspec.json.encode(old(**fields)), type=new) == new(**fields)
        assert msgspec.json.encode(new(**fields)) == msgspec.json.encode(old(**fields)), (
            "without a trace: the same bytes"
        )
