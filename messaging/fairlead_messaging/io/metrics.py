"""What the service counts, in the Prometheus text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from fairlead_messaging.commands import Message

LATENCY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry per running service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.published = Counter(
            "fairlead_messaging_published_messages", "Messages stored", ["topic"], registry=self.registry
        )
        self.published_bytes = Counter(
            "fairlead_messaging_published_bytes", "Payload bytes stored", ["topic"], registry=self.registry
        )
        self.known = Counter(
            "fairlead_messaging_known_messages",
            "Messages of a producer that were stored before",
            ["topic"],
            registry=self.registry,
        )
        self.polled = Counter(
            "fairlead_messaging_polled_messages", "Messages given to readers", ["topic"], registry=self.registry
        )
        self.refused = Counter(
            "fairlead_messaging_refused_requests", "Requests refused, by reason", ["code"], registry=self.registry
        )
        self.publish_seconds = Histogram(
            "fairlead_messaging_publish_seconds",
            "Time until a publish was durable",
            buckets=LATENCY_SECONDS,
            registry=self.registry,
        )
        self.poll_seconds = Histogram(
            "fairlead_messaging_poll_seconds",
            "Time of a poll, waiting included",
            buckets=LATENCY_SECONDS,
            registry=self.registry,
        )
        self.batches = Gauge("fairlead_messaging_batches", "Durable writes since start", registry=self.registry)
        self.failures = Gauge(
            "fairlead_messaging_storage_failures", "Failed writes since start", registry=self.registry
        )
        self.waiting = Gauge(
            "fairlead_messaging_waiting_commands", "Commands waiting for a write", registry=self.registry
        )
        self.listeners = Gauge(
            "fairlead_messaging_long_polls", "Readers waiting for something new", registry=self.registry
        )

    def note_published(self, topic: str, messages: list[Message], known: int) -> None:
        stored = len(messages) - known
        self.published.labels(topic).inc(stored)
        if stored:
            self.published_bytes.labels(topic).inc(sum(len(message.payload) for message in messages))
        if known:
            self.known.labels(topic).inc(known)

    def text(self) -> bytes:
        return generate_latest(self.registry)
