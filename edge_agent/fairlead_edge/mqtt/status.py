"""MQTT in the agent's status and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from fairlead_edge.metrics import Family, single


class Counters:
    """Counts since the start of the agent."""

    def __init__(self) -> None:
        self.published: Counter[int] = Counter()
        """Messages stored, by QoS."""
        self.refused: Counter[str] = Counter()
        """Messages refused, or of QoS 0 and dropped, by reason."""
        self.closed: Counter[str] = Counter()
        """Connections ended, by reason."""
        self.delivered = 0
        self.undeliverable = 0
        """How often a message could not be written for a subscriber, and was abandoned."""
        self.replaced = 0
        """Messages written with U+FFFD for characters that MQTT cannot carry."""
        self.retained = 0


class MqttStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the listener at one moment."""

    counters: Counters
    connections: int
    waiting: int
    """Messages that are not on disk yet."""
    delivered: int
    """Messages that were delivered to subscribers and not acknowledged."""
    kept: int
    """Sessions kept for clients that are not connected."""


def families(now: MqttStatus) -> Iterator[Family]:
    """The metrics."""
    counters = now.counters
    yield single("fairlead_edge_mqtt_connections", "gauge", "Connected MQTT clients", now.connections)
    yield single(
        "fairlead_edge_mqtt_sessions_kept", "gauge", "Sessions kept for clients that are not connected", now.kept
    )
    yield Family(
        name="fairlead_edge_mqtt_published_total",
        kind="counter",
        help="Messages of MQTT clients that were stored, by QoS",
        samples={(str(qos),): counters.published[qos] for qos in (0, 1)},
        labels=("qos",),
    )
    yield Family(
        name="fairlead_edge_mqtt_refused_total",
        kind="counter",
        help="Messages of MQTT clients that were refused, or dropped at QoS 0, by reason",
        samples={(reason,): count for reason, count in counters.refused.items()},
        labels=("reason",),
    )
    yield Family(
        name="fairlead_edge_mqtt_closed_total",
        kind="counter",
        help="MQTT connections that ended, by reason",
        samples={(reason,): count for reason, count in counters.closed.items()},
        labels=("reason",),
    )
    yield single("fairlead_edge_mqtt_delivered_total", "counter", "Messages sent to subscribers", counters.delivered)
    yield single(
        "fairlead_edge_mqtt_undeliverable_total",
        "counter",
        "Times a message was too large for MQTT or for a subscriber",
        counters.undeliverable,
    )
    yield single(
        "fairlead_edge_mqtt_replaced_total",
        "counter",
        "Messages sent with U+FFFD in place of characters that MQTT cannot carry",
        counters.replaced,
    )
    yield single(
        "fairlead_edge_mqtt_retain_dropped_total", "counter", "Messages whose RETAIN was ignored", counters.retained
    )
    yield Family(
        name="fairlead_edge_mqtt_in_flight",
        kind="gauge",
        help="Messages waiting for an acknowledgement: to clients (in), by subscribers (out)",
        samples={("in",): now.waiting, ("out",): now.delivered},
        labels=("direction",),
    )


def body(now: MqttStatus) -> dict[str, object]:
    """As ``GET /v1/status`` shows it."""
    counters = now.counters
    return {
        "connections": now.connections,
        "sessionsKept": now.kept,
        "inFlight": {"in": now.waiting, "out": now.delivered},
        "published": {f"qos{qos}": counters.published[qos] for qos in (0, 1)},
        "refused": dict(counters.refused),
        "delivered": counters.delivered,
    }
