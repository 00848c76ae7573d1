"""What is said of MQTT in metrics and in the status."""

from __future__ import annotations

from fairlead_edge import metrics
from fairlead_edge.mqtt import status
from fairlead_edge.mqtt.status import Counters, MqttStatus


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
