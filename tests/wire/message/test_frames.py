"""The headers' shape on the wire: other programs may read it."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec
from fairlead_wire.message import Ack, Deferred


def test_every_verb_has_one_meaning_and_travels_one_way_or_both():
    """No two headers share a verb; ack, nack and keepalive are the only ones both may send."""
    edge = {header.__struct_config__.tag for header in message.FromEdge.__args__}
    hub = {header.__struct_config__.tag for header in message.FromHub.__args__}
    assert edge & hub == {"ack", "nack", "keepalive"}
    assert len(edge) == len(message.FromEdge.__args__)
    assert len(hub) == len(message.FromHub.__args__)


def test_an_upstream_message_carries_its_body_raw():
    text = (
        b'{"id":"a","topic":"default/telemetry","epoch":1,"sequence":2,"source":"/messages","priority":0,'
        b'"enqueuedAt":"2026-11-20T00:00:00Z","body":{ "x" : 1.10 }}'
    )
    decoded = msgspec.json.decode(text, type=message.UpstreamMessage)
    assert bytes(decoded.body) == b'{ "x" : 1.10 }'
    assert decoded.properties == {}


def test_an_entry_is_an_array():
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


# ---- what an answer says of each message of a batch ----


def test_a_deferred_topic_is_deferred_from_its_message_on() -> None:
    full = Deferred(index=2, code="over_quota", reason="full")
    answer = Ack(parent_id=1, deferred=[full])
    assert answer.deferred_by_index(["a", "b", "a", "b", "a"]) == {2: full, 4: full}


def test_an_index_beyond_the_batch_names_nothing() -> None:
    answer = Ack(parent_id=1, deferred=[Deferred(index=9, code="over_quota", reason="")])
    assert answer.deferred_by_index(["a"]) == {}


# ---- the bounded types of header fields ----


@pytest.mark.parametrize("uid", ["9b2c1a5e-0000-4000-8000-000000000000", "a", "A_1", "u" * 128])
def test_a_uid_that_may_be_held_is_read_from_the_wire(uid: str) -> None:
    assert message.is_uid(uid)
    assert msgspec.convert(["api/v1/nodes/x", uid, "d", "7"], message.HeldEntry).uid == uid


@pytest.mark.parametrize("uid", ["", "u" * 129, "a.b", "a/b", "a\n", "ä"])
def test_a_uid_that_makes_another_name_or_path_is_refused_on_both_sides(uid: str) -> None:
    assert not message.is_uid(uid)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(["api/v1/nodes/x", uid, "d", "7"], message.HeldEntry)


# ---- frames of messages for modules, and of statuses that nodes report ----

ID = "0" * 31 + "7"
GOOD = message.Input(id=3, message=ID, module="camera", input="commands", ttl_seconds=5.0)


def test_a_message_and_the_question_for_it_travel() -> None:
    assert codec.decode_from_hub(codec.encode(GOOD, b"{}")) == (GOOD, b"{}")
    asked = message.AskInputs(id=4, messages=[ID])
    assert codec.decode_from_hub(codec.encode(asked)) == (asked, b"")
    states = message.InputStates(parent_id=4)
    assert codec.decode_from_edge(codec.encode(states, b"[]")) == (states, b"[]")


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "A" * 32},
        {"message": ID + "\n"},
        {"module": ""},
        {"module": "../x"},
        {"module": "m" * 129},
        {"input": "a/b"},
        {"ttlSeconds": 0},
        {"ttlSeconds": -1.0},
        {"ttlSeconds": 604801},
        {"encoding": "gzip"},
    ],
)
def test_what_cannot_be_ends_before_it_is_used(wrong: dict[str, object]) -> None:
    sent = {**msgspec.json.decode(msgspec.json.encode(GOOD)), **wrong}
    text = msgspec.json.encode(sent)
    frame = b"\x01" + len(text).to_bytes(4, "big") + text
    with pytest.raises(Malformed):
        codec.decode_from_hub(frame)


def test_a_question_is_bounded() -> None:
    for ids in ([], [ID] * (message.INPUT_STATES_MAX + 1)):
        with pytest.raises(Malformed):
            codec.decode_from_hub(codec.encode(message.AskInputs(id=1, messages=ids)))


def test_each_node_has_a_field_manager_that_kubernetes_takes() -> None:
    assert message.field_manager("edge-1") == "fairlead-edge-edge-1"
    first, second = (message.field_manager("n" * 252 + end) for end in "ab")
    assert len(first) == len(second) == 128 and first != second


def test_the_stronger_of_two_counts() -> None:
    assert message.stronger("", "cluster") == message.stronger("cluster", "") == "cluster"
    assert message.stronger("all", "cluster") == "all"


@pytest.mark.parametrize("force", ["", "cluster", "all"])
def test_a_report_travels(force: message.Force) -> None:
    report = message.Report(id=1, resource="api/v1/nodes/n", uid="u", force=force)
    assert codec.decode_from_edge(codec.encode(report, b"{}")) == (report, b"{}")


def test_older_peers_say_nothing_of_it() -> None:
    hello = message.Hello(node="n", agent="1", store_epoch=1, fence=0, bits=0, held=0, root="")
    assert b"statusRules" not in msgspec.json.encode(hello)
    assert b'"statusRules":""' in msgspec.json.encode(msgspec.structs.replace(hello, status_rules=""))


# ---- the bytes a device signs to renew late ----

NONCE = bytes(range(32))


def test_the_bytes_are_those_of_the_protocol() -> None:
    found = message.late_proof(NONCE, hub_certificate=b"hub", request=b"request")
    hashes = hashlib.sha256(b"hub").digest() + hashlib.sha256(b"request").digest()
    assert found == b"fairlead-late/1\0" + NONCE + hashes and len(found) == 112


@pytest.mark.parametrize("nonce", [b"", NONCE[:-1], NONCE + b"x"])
def test_a_nonce_of_another_length_is_refused(nonce: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        message.late_proof(nonce, hub_certificate=b"", request=b"")
