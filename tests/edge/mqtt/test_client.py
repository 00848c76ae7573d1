"""Who may connect: by certificate, by token, or any program where that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_edge import module_tokens
from fairlead_edge.mqtt import reasons
from fairlead_edge.mqtt.client import ClientAdmission, MqttClient
from fairlead_edge.mqtt.packets import Connect, PublishPacket
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import Subscribed
from fairlead_edge.mqtt.topics import InputFilter
from fairlead_edge.mqtt.wills import AuthoredWill, KeptSessions
from fairlead_edge.outbox.authorship import Author

TOKENS = module_tokens.parse(module_tokens.line("camera", "t0ken"))


def connect(client_id: str = "c", password: bytes | None = None, *, level: int = 4, clean: bool = True) -> Connect:
    return Connect(level=level, client_id=client_id, clean=clean, keep_alive=60, user_name="u", password=password)


def admit(packet: Connect, certificate: str | None = None, *, required: bool = True, tokens: bool = True) -> MqttClient:
    return ClientAdmission("edge-1", required, TOKENS if tokens else None).admit(packet, certificate, "new")


@pytest.mark.parametrize("client_id", ["camera", "edge-1/camera", "CAMERA", "camera/2", "edge-1/camera/2"])
def test_a_certificate_and_an_identifier_that_agree(client_id: str) -> None:
    for name in ("camera", "edge-1/camera"):
        assert admit(connect(client_id), name) == MqttClient("camera", client_id)


NOT_VALID, NOT_AUTHORIZED = Code.CLIENT_IDENTIFIER_NOT_VALID, Code.NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("name", "client_id", "code"),
    [
        *(("camera", client_id, NOT_VALID) for client_id in ("filter", "camera2", "edge-2/camera", "x/camera")),
        *((name, "c", NOT_AUTHORIZED) for name in ("", "a b", "a/b", "#", "+", "x" * 129)),
    ],
)
def test_a_certificate_that_is_refused(name: str, client_id: str, code: Code) -> None:
    with pytest.raises(MqttRefused) as caught:
        admit(connect(client_id), name)
    assert caught.value.code is code


def test_a_token_is_the_password() -> None:
    assert admit(connect("any-name", b"t0ken")) == MqttClient("camera", "any-name")
    assert admit(connect("", b"t0ken")) == MqttClient("camera", "camera/new")


@pytest.mark.parametrize("password", [b"wrong", b"", b"\xff\xfe", b"x" * 5000])
def test_a_wrong_token_is_refused_also_where_none_is_needed(password: bytes) -> None:
    for required in (True, False):
        with pytest.raises(MqttRefused) as caught:
            admit(connect("c", password), required=required)
        assert caught.value.code is Code.BAD_USER_NAME_OR_PASSWORD


def test_without_either() -> None:
    with pytest.raises(MqttRefused) as caught:
        admit(connect())
    assert caught.value.code is Code.BAD_USER_NAME_OR_PASSWORD
    assert admit(connect(), required=False) == MqttClient("", "c")
    assert admit(connect("c", b"ignored"), required=False, tokens=False) == MqttClient("", "c")


def test_an_empty_identifier() -> None:
    assert admit(connect(""), required=False).id == "new"
    with pytest.raises(MqttRefused):
        admit(connect("", clean=False), required=False)
    assert admit(connect("", clean=False, level=5), required=False).id == "new"


CLIENT = MqttClient("m", "m")
SUBSCRIBED = Subscribed(InputFilter("f", "m", "i", False), 1)
WILL = AuthoredWill(PublishPacket("t", b"gone"), Author())


def kept(
    *, seconds: int = 60, delay: int = 0, will: AuthoredWill | None = WILL
) -> tuple[KeptSessions, list[AuthoredWill]]:
    sessions = KeptSessions()
    due = sessions.keep(CLIENT, {"f": SUBSCRIBED}, now=0.0, seconds=seconds, will=will, delay_seconds=delay)
    return sessions, due


def test_a_will_without_a_delay_comes_at_once() -> None:
    sessions, due = kept()
    assert due == [WILL]
    assert sessions.due(1000.0) == []


def test_a_session_that_is_not_kept_publishes_its_will_whatever_the_delay() -> None:
    """5: [MQTT-3.1.3-9]"""
    sessions, due = kept(seconds=0, delay=30)
    assert (due, len(sessions)) == ([WILL], 0)


def test_a_will_comes_after_its_delay_once() -> None:
    sessions, due = kept(delay=30)
    assert due == []
    assert sessions.due(29.0) == []
    assert sessions.due(30.0) == [WILL]
    assert sessions.due(31.0) == []
    assert sessions.take(CLIENT, clean=False, now=32.0) == ((SUBSCRIBED,), [])


def test_a_will_comes_with_the_sessions_end_where_that_is_sooner() -> None:
    sessions, _ = kept(seconds=10, delay=30)
    assert sessions.due(10.0) == [WILL]
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("clean", "now", "taken"),
    [
        pytest.param(False, 5.0, ((SUBSCRIBED,), []), id="back in time: no will"),
        pytest.param(True, 5.0, (None, [WILL]), id="a clean start ends the session, and the will comes"),
        pytest.param(False, 60.0, (None, [WILL]), id="too late: the session has ended"),
    ],
)
def test_a_client_comes_back(clean: bool, now: float, taken: Any) -> None:
    sessions, _ = kept(delay=90)
    assert sessions.take(CLIENT, clean=clean, now=now) == taken
    assert sessions.due(1000.0) == []


def test_no_more_sessions_are_kept_than_there_is_room_for() -> None:
    sessions = KeptSessions(most=2)
    due = [
        sessions.keep(MqttClient("", str(n)), {}, now=0.0, seconds=60, will=WILL, delay_seconds=30) for n in range(3)
    ]
    assert due == [[], [], [WILL]]
    assert len(sessions) == 2
    assert sessions.take(MqttClient("", "0"), clean=False, now=1.0) == (None, [])


def test_every_refusal_has_a_return_code_in_3() -> None:
    codes = {code: reasons.connack_3(code) for code in Code}
    assert codes[Code.SUCCESS] == 0
    assert all(1 <= found <= 5 for code, found in codes.items() if code is not Code.SUCCESS)
    assert codes[Code.SERVER_BUSY] == 3


def test_refused_messages_have_codes() -> None:
    assert reasons.of_message("forbidden_source") is Code.NOT_AUTHORIZED
    assert reasons.of_message("too_large") is Code.PACKET_TOO_LARGE
    assert reasons.of_message("anything") is Code.IMPLEMENTATION_SPECIFIC_ERROR
