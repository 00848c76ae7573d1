"""Who may connect: by certificate, by token, or any program where that is allowed."""

from __future__ import annotations

import pytest

from fairlead_edge import module_tokens
from fairlead_edge.mqtt.client import ClientAdmission, MqttClient
from fairlead_edge.mqtt.packets import Connect
from fairlead_edge.mqtt.reasons import Code, MqttRefused

TOKENS = module_tokens.parse(module_tokens.line("camera", "t0ken"))


def connect(client_id: str = "c", password: bytes | None = None, *, level: int = 4, clean: bool = True) -> Connect:
    return Connect(level=level, client_id=client_id, clean=clean, keep_alive=60, user_name="u", password=password)


def admit(packet: Connect, certificate: str | None = None, *, required: bool = True, tokens: bool = True) -> MqttClient:
    return ClientAdmission("edge-1", required, TOKENS if tokens else None).admit(packet, certificate, "new")


@pytest.mark.parametrize("client_id", ["camera", "edge-1/camera", "CAMERA", "camera/2", "edge-1/camera/2"])
def test_a_certificate_and_an_identifier_that_agree(client_id: str) -> None:
    assert admit(connect(client_id), "camera") == MqttClient("camera", client_id)


@pytest.mark.parametrize("client_id", ["filter", "camera2", "edge-2/camera", "x/camera"])
def test_a_certificate_and_an_identifier_that_do_not(client_id: str) -> None:
    with pytest.raises(MqttRefused) as caught:
        admit(connect(client_id), "camera")
    assert caught.value.code is Code.CLIENT_IDENTIFIER_NOT_VALID


@pytest.mark.parametrize("name", ["", "a b", "a/b", "#", "+", "x" * 129])
def test_a_certificate_whose_name_is_no_modules(name: str) -> None:
    with pytest.raises(MqttRefused) as caught:
        admit(connect(), name)
    assert caught.value.code is Code.NOT_AUTHORIZED


def test_a_name_with_the_nodes_before_it() -> None:
    assert admit(connect("edge-1/camera"), "edge-1/camera").module == "camera"


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
