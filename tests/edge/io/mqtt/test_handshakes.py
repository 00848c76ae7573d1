"""Connections that fail before their CONNECT: the agent's log names the likely cause, once in a while."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.edges import mqtt_packets as client
from tests.support.joining.pki import Authority

from fairlead_edge.io.mqtt import listener
from fairlead_edge.io.mqtt.listener import MqttListener
from fairlead_edge.mqtt import reasons
from fairlead_edge.mqtt.settings import MqttSettings
from fairlead_wire.io import acceptor, tls


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("WRONG_VERSION_NUMBER", "does not speak TLS, which this port requires: connect with TLS"),
        ("HTTP_REQUEST", "an HTTP request came to the MQTT port"),
        ("UNSUPPORTED_PROTOCOL", "too old (UNSUPPORTED_PROTOCOL): this port takes TLS 1.2 and 1.3"),
        ("BAD_SIGNATURE", "the TLS handshake failed: BAD_SIGNATURE"),
        ("", "the TLS handshake failed: the client sent nothing"),
    ],
)
def test_a_failed_handshake_names_its_likely_cause(cause: str, said: str) -> None:
    assert said in reasons.handshake_failed(cause)


def test_tls_at_a_port_without_it_is_recognized() -> None:
    assert "speaks TLS, but this port does not" in str(reasons.not_connect(b"\x16\x03\x01\x02\x00"))
    assert str(reasons.not_connect(b"\x16MQTT")) == "the first packet must be CONNECT"


def test_mqtt_without_tls_at_a_port_with_tls_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And a client that only connects and hangs up, as probes do, leaves nothing."""
    pair = Authority(tmp_path / "ca").issue("edge-1")
    upstream: Any = SimpleNamespace(node="edge-1", publisher=None, broker=None)
    files = tls.Files(ca=pair.certificate, cert=pair.certificate, key=pair.key)

    async def knock(port: int, content: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if content:
            writer.write(content)
            assert await reader.read() == b""
        writer.close()

    async def scenario() -> None:
        made = MqttListener(
            MqttSettings(listen="127.0.0.1:0"), upstream, files=files, asks_clients=False, modules=None, ttl_seconds=0
        )
        ports: list[int] = []
        monkeypatch.setattr(listener, "bound", lambda *at, **more: [_bound(ports)])
        async with made.listening():
            await knock(ports[0], b"")
            for _ in range(3):
                await knock(ports[0], client.connect("camera"))

    def _bound(ports: list[int]) -> Any:
        [found] = real_bound("127.0.0.1", 0, backlog=8)
        ports.append(found.getsockname()[1])
        return found

    real_bound = acceptor.bound
    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    logged = [record for record in caplog.records if record.getMessage() == "mqtt_not_opened"]
    assert len(logged) == 1 and logged[0].levelno == logging.WARNING
    assert "does not speak TLS" in str(logged[0].__dict__)
