"""One connection without a socket: the clauses of MQTT that the session keeps, one after the other.

Numbers in brackets are those of the OASIS texts (3.1.1 where they do not say 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.edges import mqtt_packets as client
from tests.support.edges import stored

from fairlead_edge.mqtt import limits
from fairlead_edge.mqtt.client import ClientAdmission
from fairlead_edge.mqtt.codec import Id
from fairlead_edge.mqtt.limits import SessionLimits
from fairlead_edge.mqtt.packets import Connect
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import MqttSession, Opening, PublishOutcome, Subscribed, Todo
from fairlead_edge.mqtt.topics import InputFilter
from fairlead_edge.outbox.authorship import Author
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, Leased
from fairlead_edge.outbox.publishing import RefusalReason, Submission

LIMITS = SessionLimits(node="edge-1", packet_bytes_max=5000, session_seconds_max=7200)
OTHERS = frozenset(["secret"])


class Host:
    """Admits every client as ``module``; ``kept`` are the subscriptions of a session that continues."""

    def __init__(self, module: str = "", kept: Sequence[Subscribed] | None = None) -> None:
        self.module, self.kept = module, kept
        self.refusal: MqttRefused | None = None
        self.opened: list[Opening] = []

    def identify(self, connect: Connect) -> Opening:
        found = ClientAdmission("edge-1", False).admit(connect, self.module or None, "assigned")
        author = Author(module=self.module, node="edge-1", has_token=lambda name: name in OTHERS)
        expiry = connect.properties.get(Id.SESSION_EXPIRY_INTERVAL, 0 if connect.clean or connect.level == 5 else 7200)
        return Opening(client=found, author=author, clean=connect.clean, expiry_seconds=expiry)

    def open(self, opening: Opening) -> Sequence[Subscribed] | None:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(opening)
        return None if opening.clean else self.kept


class Talk:
    """A session at time 0, and what it answered."""

    def __init__(self, *packets: bytes, host: Host | None = None, limits: SessionLimits = LIMITS) -> None:
        self.host = host or Host()
        self.session = MqttSession(limits, self.host, now=0.0)
        self.todo = Todo()
        if packets:
            self.say(*packets)

    def say(self, *packets: bytes, at: float = 0.0) -> list[client.Read]:
        self.session.receive(b"".join(packets), at)
        return self.answers()

    def answers(self) -> list[client.Read]:
        self.todo = self.session.take()
        found, rest = client.split(self.todo.write)
        assert rest == b""
        return found

    @property
    def ended(self) -> Code | None:
        return self.session.ended.code if self.session.ended is not None else None


def kinds(found: Sequence[client.Read]) -> list[int]:
    return [each.kind for each in found]


def open_talk(level: int = 4, **more: Any) -> Talk:
    host, limits = more.pop("host", None), more.pop("limits", LIMITS)
    return Talk(client.connect(level=level, **more), host=host, limits=limits)


def leased(id: str = "m1", attempt: int = 1, body: bytes = b"{}", **more: Any) -> Leased:
    return Leased(id=id, priority=1, attempt=attempt, message=stored.message(id, body, **more))


# ---- CONNECT --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [4, 5])
def test_connack_comes_first_and_names_what_is_offered(level: int) -> None:
    """[MQTT-3.2.0-1], 5: 3.2.2.3."""
    talk = Talk()
    [found] = talk.say(client.connect(level=level))
    assert found.kind == client.CONNACK
    assert found.body[:2] == b"\0\0"
    if level == 5:
        for offered in (b"\x24\x01", b"\x25\x00", b"\x28\x00", b"\x29\x00", b"\x2a\x00", b"\x21\x04\x00"):
            assert offered in found.body


@pytest.mark.parametrize(
    ("packets", "answer", "code"),
    [
        ([client.PINGREQ], None, Code.PROTOCOL_ERROR),  # [MQTT-3.1.0-1]
        ([client.publish("fairlead/m/o")], None, Code.PROTOCOL_ERROR),
        ([b"GET / HTTP/1.1\r\n\r\n"], None, Code.PROTOCOL_ERROR),
        ([b"\x16\x03\x01\x02\x00\x01"], None, Code.PROTOCOL_ERROR),
        ([client.connect(protocol="MQIsdp", level=3)], b"\x00\x01", Code.UNSUPPORTED_PROTOCOL_VERSION),
        ([client.connect(level=9)], b"\x00\x84", Code.UNSUPPORTED_PROTOCOL_VERSION),  # [MQTT-3.1.2-2]
        ([client.connect("", clean=False)], b"\x00\x02", Code.CLIENT_IDENTIFIER_NOT_VALID),  # [MQTT-3.1.3-8]
        ([client.connect("a b")], b"\x00\x02", Code.CLIENT_IDENTIFIER_NOT_VALID),
        ([client.connect("x" * 129, level=5)], b"\x00\x85", Code.CLIENT_IDENTIFIER_NOT_VALID),
        ([client.connect(level=5, more=b"\x15" + client.field("SCRAM"))], b"\x00\x8c", Code.BAD_AUTHENTICATION_METHOD),
        ([client.connect(level=5, more=b"\x16" + client.field("data"))], b"\x00\x82", Code.PROTOCOL_ERROR),
        ([client.connect(level=5, will=("fairlead/m/o", b""), will_flags=0x10)], b"\x00\x9b", Code.QOS_NOT_SUPPORTED),
        (
            [client.connect(level=5, will=("fairlead/m/o", b""), will_flags=0x20)],
            b"\x00\x9a",
            Code.RETAIN_NOT_SUPPORTED,
        ),
        ([client.connect(level=5, will=("nowhere", b""))], b"\x00\x90", Code.TOPIC_NAME_INVALID),
        ([client.connect(will=("fairlead/secret/o", b""))], b"\x00\x05", Code.NOT_AUTHORIZED),
    ],
)
def test_a_connect_that_is_refused(packets: list[bytes], answer: bytes | None, code: Code) -> None:
    talk = Talk()
    found = talk.say(*packets)
    assert [each.body[:2] for each in found] == ([] if answer is None else [answer])
    assert talk.ended is code
    assert talk.todo.close
    assert not talk.host.opened


def test_a_host_without_room_says_so() -> None:
    host = Host()
    host.refusal = MqttRefused(Code.QUOTA_EXCEEDED, "full")
    [found] = Talk(host=host).say(client.connect(level=5))
    assert found.body[:2] == b"\0\x97"


def test_an_identifier_is_assigned_in_5() -> None:
    """5: [MQTT-3.1.3-6], [MQTT-3.2.2-16]"""
    [found] = Talk().say(client.connect("", level=5))
    assert b"\x12" + client.field("assigned") in found.body


# ---- silence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "asked", "seconds", "told"),
    [
        (4, 60, 90, None),
        (4, 0, 450, None),
        (4, 20_000, 5400, None),
        (5, 60, 90, None),
        (5, 0, 450, 300),
        (5, 999, 450, 300),
    ],
)
def test_silence_of_one_and_a_half_times_the_keep_alive_ends_it(
    level: int, asked: int, seconds: int, told: int | None
) -> None:
    """[MQTT-3.1.2-24]; 5: 3.2.2.3.14"""
    talk = Talk()
    [connack] = talk.say(client.connect(level=level, keep_alive=asked))
    assert (b"\x13\x01\x2c" in connack.body) == (told is not None)
    talk.session.tick(seconds - 1)
    assert talk.ended is None
    talk.say(client.PINGREQ, at=1.0)
    talk.session.tick(seconds)
    assert talk.ended is None
    talk.session.tick(seconds + 1)
    assert talk.ended is Code.KEEP_ALIVE_TIMEOUT
    assert kinds(talk.answers()) == ([client.DISCONNECT] if level == 5 else [])


def test_half_packets_are_no_sign_of_life() -> None:
    talk = open_talk(keep_alive=10)
    talk.say(client.publish("fairlead/m/o", b"x" * 50)[:20], at=14.0)
    talk.session.tick(15.0)
    assert talk.ended is Code.KEEP_ALIVE_TIMEOUT


def test_a_connect_has_to_come_within_ten_seconds() -> None:
    talk = Talk()
    talk.say(client.connect()[:5], at=9.0)
    talk.session.tick(10.0)
    assert talk.session.is_over


# ---- PUBLISH --------------------------------------------------------------------------------------------------------


def test_a_message_is_acknowledged_when_it_is_stored_and_not_before() -> None:
    """[MQTT-4.3.2-2], [MQTT-4.6.0-2]"""
    talk = open_talk()
    assert talk.say(*(client.publish("fairlead/m/o", b"%d" % n, id=n) for n in (3, 1, 2))) == []
    received = talk.todo.received
    assert [each.message.packet for each in received] == [3, 1, 2]
    assert talk.session.unacknowledged == 3
    talk.session.stored([PublishOutcome(each.message) for each in received])
    assert [(each.kind, each.id) for each in talk.answers()] == [(4, 3), (4, 1), (4, 2)]
    assert talk.session.unacknowledged == 0


def test_qos_0_is_stored_without_an_answer() -> None:
    talk = open_talk()
    talk.say(client.publish("fairlead/m/o", qos=0))
    talk.session.stored([PublishOutcome(each.message) for each in talk.todo.received])
    assert talk.answers() == []


@pytest.mark.parametrize(
    ("payload", "more", "body", "base64"),
    [
        (b'{"a": 1}', {}, b'{"a": 1}', None),
        (b" 42 ", {}, b"42", None),
        (b"text", {}, None, "dGV4dA=="),
        (b"\xff\xfe", {}, None, "//4="),
        (b"", {}, None, ""),
        (b"42", {"more": b"\x03" + client.field("text/plain")}, None, "NDI="),
        (b"42", {"more": b"\x03" + client.field("application/json")}, b"42", None),
        (b"[" * 3000, {}, None, None),
    ],
)
def test_a_payload_is_json_where_it_is(
    payload: bytes, more: dict[str, Any], body: bytes | None, base64: str | None
) -> None:
    talk = open_talk(5)
    talk.say(client.publish("fairlead/m/o", payload, level=5, **more))
    [received] = talk.todo.received
    assert isinstance(received.content, Submission)
    if body is not None:
        assert bytes(received.content.body) == body  # type: ignore[arg-type]
    elif base64 is not None:
        assert received.content.body_base64 == base64
    else:
        assert received.content.body is msgspec.UNSET


@pytest.mark.parametrize(
    ("level", "packet", "code"),
    [
        (4, client.publish("fairlead/m/o", qos=2), Code.QOS_NOT_SUPPORTED),
        (5, client.publish("fairlead/m/o", qos=2, level=5), Code.QOS_NOT_SUPPORTED),  # 5: [MQTT-3.2.2-11]
        (5, client.publish("fairlead/m/o", retain=True, level=5), Code.RETAIN_NOT_SUPPORTED),  # 5: [MQTT-3.2.2-14]
        (5, client.publish("", level=5, more=b"\x23\0\1"), Code.TOPIC_ALIAS_INVALID),  # 5: [MQTT-3.3.2-8]
        (5, client.publish("fairlead/m/o", level=5, more=b"\x0b\1"), Code.PROTOCOL_ERROR),  # 5: [MQTT-3.3.4-6]
        (4, client.publish("fairlead/m/o", b"x" * 6000), Code.PACKET_TOO_LARGE),
        (5, client.publish("fairlead/m/o", b"x" * 6000, level=5), Code.PACKET_TOO_LARGE),  # 5: [MQTT-3.2.2-15]
        (4, client.publish("$iothub/twin/GET/?$rid=1", b""), Code.TOPIC_NAME_INVALID),
        (4, client.publish("fairlead/m/o") * 2, Code.PROTOCOL_ERROR),
        (
            5,
            b"".join(client.publish("fairlead/m/o", level=5, id=n) for n in range(1, 1026)),
            Code.RECEIVE_MAXIMUM_EXCEEDED,
        ),
    ],
)
def test_what_ends_the_connection(level: int, packet: bytes, code: Code) -> None:
    talk = open_talk(level)
    found = talk.say(packet)
    assert talk.ended is code
    assert talk.todo.close
    if level == 5:
        assert (found[-1].kind, found[-1].body[0]) == (client.DISCONNECT, code)
    else:
        assert found == []


def test_what_came_before_a_fault_is_stored_all_the_same() -> None:
    talk = open_talk()
    talk.say(client.publish("fairlead/m/o"), b"\x00\x00", client.publish("fairlead/m/o", id=2))
    assert [each.message.packet for each in talk.todo.received] == [1]
    assert talk.todo.close


@pytest.mark.parametrize(
    ("host", "topic", "code"),
    [
        (Host(), "nowhere", "bad_source"),
        (Host(), "fairlead/secret/o", "forbidden_source"),
        (Host("camera"), "fairlead/filter/o", "forbidden_source"),
        (Host("camera"), "devices/edge-1/modules/filter/messages/events/", "forbidden_source"),
        (Host("camera"), "fairlead/ca mera/o", "bad_source"),
    ],
)
def test_a_message_that_is_refused_for_good_is_answered_and_keeps_its_place(host: Host, topic: str, code: str) -> None:
    talk = Talk(client.connect("camera", level=5), host=host)
    talk.say(client.publish(topic, level=5))
    [received] = talk.todo.received
    assert isinstance(received.content, RefusalReason)
    assert received.content.code == code
    talk.session.stored([PublishOutcome(received.message, Code.NOT_AUTHORIZED, "because")])
    [found] = talk.answers()
    assert (found.kind, found.body[2]) == (client.PUBACK, 0x87)
    assert b"because" in found.body


def test_a_client_that_wants_no_reasons_gets_none() -> None:
    """5: [MQTT-3.1.2-29]"""
    talk = open_talk(5, more=b"\x17\x00")
    talk.say(client.publish("nowhere", level=5))
    talk.session.stored([PublishOutcome(talk.todo.received[0].message, Code.TOPIC_NAME_INVALID, "because")])
    assert b"because" not in talk.answers()[0].body


def test_a_module_speaks_with_its_own_name_and_for_devices_behind_it() -> None:
    host = Host("camera")
    talk = Talk(client.connect("camera"), host=host, limits=msgspec.structs.replace(LIMITS, other_topics=True))
    topics = [
        "fairlead/CAMERA/o",
        "devices/meter/messages/events/",
        "a/b",
        "devices/edge-1/modules/camera/messages/events/",
    ]
    talk.say(*(client.publish(topic, id=n + 1) for n, topic in enumerate(topics)))
    found = [each.content for each in talk.todo.received]
    assert all(isinstance(each, Submission) for each in found)
    stamps = [
        (each.source, each.system_properties["connectionDeviceId"]) for each in found if isinstance(each, Submission)
    ]
    assert stamps == [
        ("/messages/modules/camera/outputs/o", "edge-1"),
        ("/messages", "meter"),
        ("/messages/mqtt/a/b", "edge-1"),
        ("/messages/modules/camera", "edge-1"),
    ]
    assert {each.system_properties["connectionModuleId"] for each in found if isinstance(each, Submission)} == {
        "camera"
    }


def test_an_impatient_client_that_repeats_gets_one_answer() -> None:
    talk = open_talk()
    talk.say(client.publish("fairlead/m/o"), client.publish("fairlead/m/o", dup=True))
    assert len(talk.todo.received) == 1
    assert talk.ended is None


def test_retain_is_dropped_and_counted_in_3() -> None:
    talk = open_talk()
    talk.say(client.publish("fairlead/m/o", retain=True))
    assert (len(talk.todo.received), talk.session.retained) == (1, 1)


def test_message_expiry_goes_with_the_message() -> None:
    talk = open_talk(5)
    talk.say(client.publish("fairlead/m/o", level=5, more=b"\x02\0\0\0\x09"))
    assert talk.todo.received[0].ttl_seconds == 9


# ---- SUBSCRIBE ------------------------------------------------------------------------------------------------------


def test_each_filter_gets_its_answer() -> None:
    """[MQTT-3.8.4-5]; 5: 3.9.3"""
    filters = [
        ("fairlead/m/inputs/i", 2),
        ("fairlead/m/inputs/j", 0),
        ("#", 1),
        ("fairlead/secret/inputs/i", 1),
        ("$share/g/a", 1),
    ]
    talk = open_talk(5)
    [found] = talk.say(client.subscribe(filters, level=5, id=9))
    assert (found.kind, found.id, list(found.body[3:])) == (client.SUBACK, 9, [1, 0, 0xA2, 0x87, 0x9E])
    assert [each.inputs.input for each in talk.todo.subscribed] == ["i", "j"]
    talk = open_talk()
    [found] = talk.say(client.subscribe(filters))
    assert list(found.body[2:]) == [1, 0, 0x80, 0x80, 0x80]


def test_a_module_has_its_own_inputs_alone() -> None:
    talk = Talk(client.connect("camera"), host=Host("camera"))
    [found] = talk.say(client.subscribe([("fairlead/camera/inputs/i", 1), ("fairlead/filter/inputs/i", 1)]))
    assert list(found.body[2:]) == [1, 0x80]


def test_too_many_subscriptions_are_refused() -> None:
    talk = open_talk(5)
    for start in (0, 60):
        filters = [(f"fairlead/m/inputs/{n}", 1) for n in range(start, start + 60)]
        [found] = talk.say(client.subscribe(filters, level=5))
    assert list(found.body[3:]) == [1] * 40 + [0x97] * 20


def test_a_goodbye_keeps_to_the_size_the_client_takes() -> None:
    """[MQTT-3.1.0-2]; 5: [MQTT-3.1.2-24], [MQTT-3.14.2-3]"""
    talk = open_talk(5, more=b"\x27\0\0\0\x1e")
    [goodbye] = talk.say(client.connect(level=5))
    assert talk.ended is Code.PROTOCOL_ERROR
    assert (goodbye.kind, goodbye.body) == (client.DISCONNECT, b"\x82\0")


def test_kept_subscriptions_do_not_outlive_the_right_to_them() -> None:
    """The module got a token of its own while the client was away."""
    kept = [Subscribed(InputFilter(f"fairlead/{module}/inputs/i", module, "i", False), 1) for module in ("m", "secret")]
    talk = open_talk(clean=False, host=Host(kept=kept))
    assert [each.inputs.module for each in talk.todo.subscribed] == ["m"]
    assert list(talk.session.subscriptions) == ["fairlead/m/inputs/i"]


def test_what_was_subscribed_to_and_given_up_in_one_breath_is_not_begun() -> None:
    """5: 3.10.4-2: after its UNSUBACK nothing new comes for it, also where both packets arrived together."""
    talk, wish = open_talk(), ("fairlead/m/inputs/i", 1)
    talk.say(client.subscribe([wish, ("fairlead/m/inputs/j", 1)]), client.unsubscribe([wish[0]], id=2))
    assert [each.inputs.input for each in talk.todo.subscribed] == ["j"]
    talk.say(client.unsubscribe(["fairlead/m/inputs/j"], id=3), client.subscribe([("fairlead/m/inputs/j", 0)], id=4))
    assert talk.todo.unsubscribed == ["fairlead/m/inputs/j"]
    assert [(each.inputs.input, each.qos) for each in talk.todo.subscribed] == [("j", 0)]


def test_unsubscribe() -> None:
    """[MQTT-3.10.4-5]; 5: 3.11.3"""
    talk = open_talk(5)
    talk.say(client.subscribe([("fairlead/m/inputs/i", 1)], level=5))
    [found] = talk.say(client.unsubscribe(["fairlead/m/inputs/i", "fairlead/m/inputs/i"], level=5))
    assert (found.kind, list(found.body[3:])) == (client.UNSUBACK, [0, 0x11])
    assert talk.todo.unsubscribed == ["fairlead/m/inputs/i"] * 2


SUBSCRIBED = Subscribed(InputFilter("fairlead/m/inputs/i", "m", "i", False), 1)


def test_a_delivery_waits_for_its_acknowledgement() -> None:
    """[MQTT-4.3.2-1], [MQTT-2.3.1-4]"""
    talk = open_talk()
    assert talk.session.deliver(SUBSCRIBED, "i", "edge-1/m/i", leased("m1")) == ""
    assert talk.session.deliver(SUBSCRIBED, "i", "edge-1/m/i", leased("m2", attempt=2)) == ""
    first, second = talk.answers()
    assert (first.flags, second.flags) == (0b0010, 0b1010)
    assert first.body == client.field("fairlead/m/inputs/i") + b"\0\1{}"
    assert len(talk.session.delivered) == 2
    talk.say(client.puback(2), client.puback(77))
    assert [(each.id, each.done) for each in talk.todo.acknowledged] == [("m2", True)]
    assert talk.session.delivered.take() == [("edge-1/m/i", "m1")]


def test_a_delivery_that_the_client_refuses_is_given_back() -> None:
    talk = open_talk(5)
    talk.session.deliver(SUBSCRIBED, "i", "edge-1/m/i", leased())
    talk.answers()
    talk.say(client.puback(1, level=5, code=0x97))
    assert [each.done for each in talk.todo.acknowledged] == [False]


def test_the_window_is_the_clients_and_bounded() -> None:
    """5: [MQTT-3.3.4-7]"""
    assert open_talk().session.room == limits.DELIVERED_MAX
    assert open_talk(5, more=b"\x21\xff\xff").session.room == limits.DELIVERED_MAX
    talk = open_talk(5, more=b"\x21\0\2")
    talk.session.deliver(SUBSCRIBED, "i", "e", leased("a"))
    assert talk.session.room == 1


def test_a_message_larger_than_the_client_takes_is_not_sent() -> None:
    """5: [MQTT-3.1.2-24]"""
    talk = open_talk(5, more=b"\x27\0\0\0\x40")
    why = talk.session.deliver(SUBSCRIBED, "i", "e", leased(body=b'"' + b"x" * 100 + b'"'))
    assert why == "its packet has 128 bytes, and the client accepts 64"
    assert talk.answers() == []
    assert len(talk.session.delivered) == 0


def test_a_delivery_of_5_carries_properties() -> None:
    talk = open_talk(5)
    message = leased(properties={"a": "b", "n": None}, system_properties={"contentType": "text/plain"})
    talk.session.deliver(SUBSCRIBED, "i", "e", message)
    [found] = talk.answers()
    assert b"\x26" + client.field("a") + client.field("b") in found.body
    assert b"\x03" + client.field("text/plain") in found.body


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"a": "x" * 65_536}},
        {"properties": {"\N{EURO SIGN}" * 21_846: "x"}},
        {"system_properties": {"contentType": "x" * 65_536}},
        {"system_properties": {"correlationId": "x" * 65_536}},
    ],
)
def test_a_property_that_has_no_place_in_a_packet_is_not_cut(more: dict[str, Any]) -> None:
    """And none is lost silently: the message is given back with the reason."""
    talk = open_talk(5)
    why = talk.session.deliver(SUBSCRIBED, "i", "e", leased(**more))
    assert "and MQTT allows 65535" in why
    assert (talk.answers(), len(talk.session.delivered)) == ([], 0)
    assert open_talk(4).session.deliver(SUBSCRIBED, "i", "e", leased(**more)) == ""  # which carries no properties


def test_what_mqtt_cannot_carry_is_replaced_and_counted() -> None:
    """Whatever is in the store already.  5: [MQTT-1.5.4-2]"""
    talk = open_talk(5)
    more: dict[str, Any] = {"properties": {"a\0": "b\n", "fine": "ok"}, "system_properties": {"contentType": "\0"}}
    for id in "ab":
        assert talk.session.deliver(SUBSCRIBED, "i", "e", leased(id, **more)) == ""
    talk.session.deliver(SUBSCRIBED, "i", "e", leased("c", properties={"fine": "ok"}))
    found = talk.answers()
    assert b"\x26" + client.field("a\ufffd") + client.field("b\ufffd") in found[0].body
    assert b"\x03" + client.field("\ufffd") in found[0].body
    assert (len(found), talk.session.replaced) == (3, 2)


def test_nothing_is_given_beside_what_failed_before() -> None:
    """Until it is acknowledged, or given out again elsewhere."""
    talk = open_talk()
    talk.session.deliver(SUBSCRIBED, "i", "e", leased("poison", attempt=2))
    assert talk.session.room == 0
    talk.say(client.puback(1))
    assert talk.session.room == limits.DELIVERED_MAX
    talk.session.deliver(SUBSCRIBED, "i", "e", leased("slow", attempt=2))
    for now in (1.0, 30.0):
        talk.session.tick(now)
        assert talk.session.room == 0
    talk.session.tick(1.0 + LEASE_SECONDS)
    assert talk.session.room == limits.DELIVERED_MAX - 1


def test_packet_identifiers_in_use_are_passed_over() -> None:
    talk = open_talk()
    talk.session.delivered._next_packet = 65_535
    for id in "abc":
        talk.session.deliver(SUBSCRIBED, "i", "e", leased(id))
    assert [int.from_bytes(each.body[21:23]) for each in talk.answers()] == [65_535, 1, 2]


# ---- the end --------------------------------------------------------------------------------------------------------


WILL = ("fairlead/m/gone", b"1")


@pytest.mark.parametrize(
    ("level", "goodbye", "has_will"),
    [
        (4, client.BYE, False),  # [MQTT-3.14.4-3]
        (5, client.packet(0xE0, b"\x00"), False),
        (5, client.packet(0xE0, b"\x04"), True),  # 5: 3.1.2.5
        (5, client.packet(0xE0, b"\x81"), True),
        (4, b"\x00\x00", True),
    ],
)
def test_the_will_goes_with_a_disconnect_that_says_so(level: int, goodbye: bytes, has_will: bool) -> None:
    talk = open_talk(level, will=WILL)
    assert talk.session.will is not None
    talk.say(goodbye)
    assert talk.session.is_over
    assert talk.todo.close
    assert (talk.session.will is not None) == has_will


def test_the_expiry_may_be_changed_at_the_end_and_not_from_nothing() -> None:
    """5: [MQTT-3.14.2-2], 3.1.2.11.2"""
    talk = open_talk(5, more=b"\x11\0\0\0\x09")
    talk.say(client.packet(0xE0, b"\x00\x05\x11\0\0\0\0"))
    assert talk.session.expiry_seconds == 0
    talk = open_talk(5)
    talk.say(client.packet(0xE0, b"\x00\x05\x11\0\0\0\x09"))
    assert talk.ended is Code.PROTOCOL_ERROR


def test_a_session_goes_on_with_its_subscriptions() -> None:
    """[MQTT-3.2.2-2]"""
    talk = Talk(host=Host(kept=[SUBSCRIBED]))
    [found] = talk.say(client.connect(clean=False))
    assert found.body == b"\1\0"
    assert talk.todo.subscribed == [SUBSCRIBED]
    [found] = Talk(host=Host(kept=[SUBSCRIBED])).say(client.connect(clean=True))
    assert found.body == b"\0\0"


def test_nothing_is_looked_at_after_the_end() -> None:
    talk = open_talk()
    talk.say(client.BYE, client.publish("fairlead/m/o"))
    assert not talk.todo.received
    assert talk.say(client.PINGREQ) == []
    assert talk.session.room == 0
