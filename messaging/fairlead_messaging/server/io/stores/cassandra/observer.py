"""What the store on Cassandra counts, in the service's own metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PREFIX = "fairlead_messaging_cassandra_"


class CassandraMetrics:
    """Registered where that is the store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            PREFIX + "request_seconds", "Time of a request to Cassandra that was answered, by what it was for",
            ["operation"], buckets=REQUEST_SECONDS, registry=registry,
        )  # fmt: skip
        self._unknown = Counter(
            PREFIX + "unknown_outcomes", "Writes without an answer; each was found out before anything was said",
            registry=registry,
        )  # fmt: skip
        self._repeated = Counter(
            PREFIX + "repeated_writes",
            "Of these, writes that had not taken place and were done again",
            registry=registry,
        )
        self._taken_over = Counter(
            PREFIX + "taken_over", "Times that another instance became the one that writes", registry=registry
        )
        self._unapplied = Gauge(
            PREFIX + "unapplied_batches", "Durable batches that lie in the journal alone so far", registry=registry
        )

    def note_request(self, operation: str, seconds: float) -> None:
        self._seconds.labels(operation).observe(seconds)

    def note_unknown(self) -> None:
        self._unknown.inc()

    def note_repeated(self) -> None:
        self._repeated.inc()

    def note_taken_over(self) -> None:
        self._taken_over.inc()

    def show_unapplied(self, batches: int) -> None:
        self._unapplied.set(batches)
