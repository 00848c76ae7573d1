"""``[mqtt]``: TLS always, but on loopback where security is off."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_edge import metrics
from fairlead_edge.mqtt import status
from fairlead_edge.mqtt.settings import MqttSettings
from fairlead_edge.mqtt.status import Counters, MqttStatus
from fairlead_edge.settings import EdgeSettings

BASE: dict[str, Any] = {"node": "edge-1", "hub_url": "ws://127.0.0.1:10000", "data_dir": "/d", "security": "insecure"}
MTLS: dict[str, Any] = {
    "security": "mtls", "hub_url": "wss://hub:10000", "tls_ca": "/ca", "tls_cert": "/cert", "tls_key": "/key",
}  # fmt: skip
TLS = {"tls_cert": "/c", "tls_key": "/k"}


def settings(more: dict[str, Any] | None = None, **mqtt: Any) -> EdgeSettings:
    return msgspec.convert({**BASE, **(more or {}), "mqtt": mqtt}, EdgeSettings)


def test_it_is_off_unless_it_listens() -> None:
    assert settings().mqtt == MqttSettings()
    assert settings().mqtt.listen is None
    assert (MqttSettings().connections_max, MqttSettings().packet_bytes_max) == (512, 264_192)


@pytest.mark.parametrize(
    ("more", "mqtt"),
    [
        ({}, {"listen": "127.0.0.1:1883"}),
        ({}, {"listen": "0.0.0.0:8883", "tokens_file": "/t", **TLS}),
        ({}, {"listen": "0.0.0.0:8883", "tls_ca": "/a", **TLS}),
        ({"modules": {"tokens_file": "/t"}}, {"listen": "0.0.0.0:8883", **TLS}),
        (MTLS, {"listen": "0.0.0.0:8883"}),
    ],
)
def test_what_may_be_said(more: dict[str, Any], mqtt: dict[str, Any]) -> None:
    assert settings(more, **mqtt).mqtt.listen == mqtt["listen"]


@pytest.mark.parametrize(
    ("mqtt", "names"),
    [
        ({"listen": "0.0.0.0:1883"}, "mqtt.listen"),
        ({"listen": "nowhere"}, "mqtt.listen"),
        ({"listen": "127.0.0.1:1883", "tls_cert": "/c"}, "mqtt.tls_key"),
        ({"listen": "127.0.0.1:1883", "tls_key": "/c"}, "mqtt.tls_cert"),
        ({"listen": "0.0.0.0:8883", **TLS}, "mqtt.tls_ca"),
        ({"connections_max": 0}, "connections_max"),
        ({"packet_bytes_max": 100}, "packet_bytes_max"),
        ({"retained": True}, "retained"),
    ],
)
def test_what_is_refused(mqtt: dict[str, Any], names: str) -> None:
    with pytest.raises((ValueError, msgspec.ValidationError)) as caught:
        settings(**mqtt)
    assert names in str(caught.value)


def test_metrics_and_body() -> None:
    counters = Counters()
    counters.published[1] += 3
    counters.refused["topic_name_invalid"] += 1
    counters.closed["disconnect"] += 2
    now = MqttStatus(counters=counters, connections=4, waiting=5, delivered=6, kept=7)
    text = metrics.render(status.families(now))
    for line in (
        "fairlead_edge_mqtt_connections 4",
        "fairlead_edge_mqtt_sessions_kept 7",
        'fairlead_edge_mqtt_published_total{qos="0"} 0',
        'fairlead_edge_mqtt_published_total{qos="1"} 3',
        'fairlead_edge_mqtt_refused_total{reason="topic_name_invalid"} 1',
        'fairlead_edge_mqtt_closed_total{reason="disconnect"} 2',
        'fairlead_edge_mqtt_in_flight{direction="in"} 5',
        'fairlead_edge_mqtt_in_flight{direction="out"} 6',
    ):
        assert line in text.splitlines()
    assert status.body(now)["inFlight"] == {"in": 5, "out": 6}
