"""The hub's numbers for Prometheus.  No label grows with nodes, objects or users' text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.counts import LATENCY_BUCKETS
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.keys.key_state import Backoff, KeyInFlight, Queued, Withheld
from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.io_counts import IoCounts


class LinkCounts(Protocol):
    """``LinkServer``."""

    def openings(self) -> tuple[int, int]: ...


class PublisherCounts(Protocol):
    """``CloudEventPublisher``."""

    @property
    def published(self) -> int: ...

    @property
    def dropped(self) -> int: ...


class IdentityCounts(Protocol):
    """``IdentityService``."""

    @property
    def signer_ends(self) -> tuple[str, str, float] | None: ...

    @property
    def skew(self) -> float: ...


class InputCounts(Protocol):
    """``io.inputs.inputs.InputService``."""

    @property
    def waiting(self) -> int: ...


class HubMetrics(Collector):
    """Reads the hub when asked; counting costs nothing but an addition."""

    def __init__(
        self,
        hub: Hub,
        kube: Kube,
        clock: Callable[[], float],
        freshness: WatchHealth | None = None,
        counts: IoCounts | None = None,
        certificate_ends: Callable[[], float] | None = None,
    ) -> None:
        self._hub, self._kube, self._clock = hub, kube, clock
        self._freshness = freshness if freshness is not None else WatchHealth()
        self._counts = counts if counts is not None else IoCounts()
        self._certificate_ends = certificate_ends
        self._link: LinkCounts | None = None
        self._publisher: PublisherCounts | None = None
        self._identity: IdentityCounts | None = None
        self._inputs: InputCounts | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def serves(
        self,
        link: LinkCounts,
        publisher: PublisherCounts | None,
        identity: IdentityCounts | None = None,
        inputs: InputCounts | None = None,
    ) -> None:
        """From now on nodes are served, events published, certificates signed, and messages sent to modules."""
        self._link, self._publisher, self._identity, self._inputs = link, publisher, identity, inputs

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield self._latency()

    def _gauges(self) -> Iterator[Metric]:
        hub, now = self._hub, self._clock()
        opening, queued = self._link.openings() if self._link is not None else (0, 0)
        sessions = list(hub.sessions.values())
        unsynced = [session.unsynced for session in sessions]
        oldest = min((found for each in unsynced if (found := each.oldest()) is not None), default=now)
        for name, text, value in (
            ("nodes", "Edge nodes known.", len(hub.placement.rules.nodes)),
            ("nodes_connected", "Edge nodes with a session.", len(sessions)),
            ("nodes_waiting", "Sessions whose comparison is not over.", sum(not s.live for s in sessions)),
            (
                "nodes_to_return",
                "Nodes connected before this start and not back yet.",
                hub.node_status.returning.waiting,
            ),
            ("openings", "Connections being opened.", opening),
            ("openings_queued", "Connections in the kernel's queue.", queued),
            ("objects_watched", "Objects in the object cache.", len(hub.object_cache)),
            (
                "queue_depth",
                "Keys waiting in all nodes' queues.",
                sum(each.count(Queued, Backoff) for each in unsynced),
            ),
            ("in_flight", "Messages sent and not yet answered.", sum(each.count(KeyInFlight) for each in unsynced)),
            (
                "pending_objects",
                "Objects on their way to a connected node.",
                sum(len(each.pending) for each in unsynced),
            ),
            ("pending_oldest_seconds", "Age of the oldest object on its way.", max(0.0, now - oldest)),
            ("parked_objects", "Objects given up for now.", sum(each.count(Parked) for each in unsynced)),
            (
                "kept_objects",
                "Objects not deleted because a cache is not certain.",
                sum(each.kept_count for each in unsynced),
            ),
            ("status_lag_seconds", "How long the oldest ObjectSync has been behind the truth.", self._status_lag(now)),
            ("status_dirty", "Documents whose status waits to be written.", len(hub.status_cache)),
            (
                "status_refused",
                "Documents the API server refuses; tried again.",
                len(hub.status_cache.refusals),
            ),
            ("kinds_frozen", "Kinds that cannot be listed.", len(hub.placement.listed.frozen)),
            ("collections_stale", "Watched collections not followed now.", len(self._freshness.all())),
            ("stale_seconds", "How long the oldest of them has not been followed.", self._freshness.oldest(now)),
            (
                "versions_unserved",
                "apiVersions of kinds named by rules and not served.",
                len(hub.placement.rules.unserved),
            ),
            (
                "withheld_objects",
                "Objects at nodes that wait for a grant of topics, or because they are paused.",
                sum(each.count(Withheld) - each.kept_count for each in unsynced),
            ),
            ("nodes_paused", "Nodes nothing is sent to, because an annotation says so.", len(hub.node_controls.pauses)),
            (
                "objects_paused",
                "Objects that are sent to no node, because their annotation says so.",
                len(hub.object_cache.paused),
            ),
            ("away_waiting", "Objects and away nodes that are to be compared.", hub.sync_controller.away.waiting),
            (
                "identities_held",
                "Nodes whose certificate waits for approval.",
                len(hub.identities.held.keys() - hub.identities.revoked.keys()),
            ),
            ("nodes_deletion_guard", "Nodes whose deletions are stopped.", hub.node_controls.tripped()),
            (
                "nodes_rate_limited",
                "Nodes whose next object waits for the overall rate limit.",
                hub.send_rate.waiting if hub.send_rate is not None else 0,
            ),
            (
                "inputs_waiting",
                "Messages for modules that are accepted and not delivered.",
                self._inputs.waiting if self._inputs is not None else 0,
            ),
            ("fence", "Fencing number.", hub.fence),
        ):
            yield GaugeMetricFamily(f"fairlead_hub_{name}", text, value=value)
        text = "SyncRules and EdgeRoutes that cannot be read."
        unreadable = GaugeMetricFamily("fairlead_hub_rules_unreadable", text, labels=["collection"])
        for collection in ("syncrules", "edgeroutes"):
            unreadable.add_metric([collection], len(hub.placement.rules.broken_names(collection)))
        yield unreadable
        text = "Nodes by the authority that signed their newest certificate; connected: true, false."
        issuers = GaugeMetricFamily("fairlead_hub_certificates", text, labels=["issuer", "connected"])
        for (issuer, connected), count in sorted(hub.identities.issuers(hub.sessions).items()):
            issuers.add_metric([issuer, str(connected).lower()], count)
        yield issuers
        text = "Connected nodes by the authorities they believe: newest (ours), other, unknown (not said yet)."
        held = GaugeMetricFamily("fairlead_hub_authorities_held", text, labels=["bundle"])
        for bundle, count in hub.node_authorities.counts().items():
            held.add_metric([bundle], count)
        yield held
        if self._certificate_ends is not None:
            text = "When the hub's own certificate ends, a Unix time; 0: it cannot be read."
            name = "fairlead_hub_certificate_ends_timestamp_seconds"
            yield GaugeMetricFamily(name, text, value=self._certificate_ends())

        yield from self._signing()

    def _signing(self) -> Iterator[Metric]:
        if self._identity is None:
            return
        text = "Seconds this hub's clock is ahead of the API server's."
        yield GaugeMetricFamily("fairlead_hub_clock_skew_seconds", text, value=self._identity.skew)
        if (found := self._identity.signer_ends) is not None:
            text = "When the authority that signs nodes' certificates ends, a Unix time."
            labels = ["authority", "fingerprint"]
            ends = GaugeMetricFamily("fairlead_hub_signer_ends_timestamp_seconds", text, labels=labels)
            ends.add_metric(list(found[:2]), found[2])
            yield ends

    def _status_lag(self, now: float) -> float:
        return max(0.0, now - min(self._hub.status_cache.behind_since.values(), default=now))

    def _counters(self) -> Iterator[Metric]:
        counts, rim = self._hub.counts, self._counts
        published, dropped = (self._publisher.published, self._publisher.dropped) if self._publisher else (0, 0)
        for name, text, value in (
            ("acks", "Objects acknowledged as durable.", counts.acks),
            ("removals", "Deletes acknowledged.", counts.removed),
            (
                "rate_limited",
                "Times a node began to wait for the overall rate limit.",
                hub.send_rate.delays if (hub := self._hub).send_rate is not None else 0,
            ),
            ("same_content", "Changes that left the delivered content the same.", counts.same_content),
            ("handshakes", "Sessions opened.", counts.handshakes),
            ("divergent_buckets", "Buckets that differed at an opening.", counts.divergent_buckets),
            ("objectsyncs_collected", "ObjectSyncs of vanished nodes removed.", counts.objectsyncs_collected),
            ("absurd_fences", "Documents written over whose fence cannot be.", counts.absurd_fences),
            ("frames_sent", "Frames to nodes.", rim.frames_sent),
            ("sent_bytes", "Bytes to nodes.", rim.bytes_sent),
            ("frames_received", "Frames from nodes.", rim.frames_received),
            ("received_bytes", "Bytes from nodes.", rim.bytes_received),
            ("malformed", "Frames that broke the protocol.", rim.malformed),
            ("upstream_messages", "Messages stored in topics.", rim.upstream_messages),
            ("upstream_duplicates", "Messages that were stored before.", rim.upstream_duplicates),
            ("events_published", "Events on the system topic.", published),
            ("events_dropped", "Events that found no room or were refused.", self._hub.cloud_events.dropped + dropped),
        ):
            yield CounterMetricFamily(f"fairlead_hub_{name}", text, value=value)
        for name, text, label, table in (
            ("retries", "Sends that failed and were repeated.", "reason", counts.retries),
            ("parkings", "Objects given up for now.", "reason", counts.parkings),
            ("refused_sessions", "Sessions refused or ended.", "code", counts.refused),
            ("openings_failed", "Connections that never became a session.", "reason", rim.openings_failed),
            ("status_writes", "Writes of status documents.", "outcome", counts.status_writes),
            ("api_requests", "Requests to the API server.", "method", self._kube.requests),
            ("upstream_refused", "Messages never to be stored.", "code", rim.upstream_refused),
            ("upstream_deferred", "Batches to be sent again.", "code", rim.upstream_deferred),
            ("renewals", "Certificates of nodes renewed, also late, and what was refused.", "outcome", rim.renewals),
            ("joins", "Devices that asked for their first certificate.", "outcome", rim.joins),
            ("inputs", "Messages for modules, by outcome.", "outcome", rim.inputs),
            ("status_reports", "Status that nodes reported of objects.", "outcome", rim.reported),
            ("watch_restarts", "Watches that were taken up again.", "reason", rim.watch_restarts),
            ("unusable_objects", "Objects that cannot be delivered.", "code", rim.unusable_objects),
        ):
            family = CounterMetricFamily(f"fairlead_hub_{name}", text, labels=[label])
            for labelled, count in sorted(table.items()):
                family.add_metric([labelled], count)
            yield family

    def _latency(self) -> Metric:
        counts = self._hub.counts
        total, buckets = 0, []
        for bound, count in zip((*map(str, LATENCY_BUCKETS), "+Inf"), counts.latency, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(
            "fairlead_hub_delivery_seconds",
            "From a change to its ack.",
            buckets=buckets,
            sum_value=counts.latency_seconds,
        )
