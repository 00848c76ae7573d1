"""The hub's metrics for Prometheus.  The number of labels does not grow with nodes, objects or user input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.counts import LATENCY_BUCKETS
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.view import HubTotals, HubView


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
    """Reads the hub's state when scraped; counting itself costs only an addition."""

    def __init__(
        self,
        view: HubView,
        kube: Kube,
        clock: Callable[[], float],
        freshness: WatchHealth | None = None,
        counts: IoCounts | None = None,
        certificate_ends: Callable[[], float] | None = None,
    ) -> None:
        self._view, self._kube, self._clock = view, kube, clock
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
        now = self._clock()
        totals = self._view.totals(now)
        yield from self._gauges(totals, now)
        yield from self._counters(totals)
        yield self._latency()

    def _gauges(self, totals: HubTotals, now: float) -> Iterator[Metric]:
        opening, queued = self._link.openings() if self._link is not None else (0, 0)
        for name, text, value in (
            ("nodes", "Edge nodes known.", totals.nodes),
            ("nodes_connected", "Edge nodes with a session.", totals.connected),
            ("nodes_waiting", "Sessions whose opening comparison has not finished.", totals.comparing),
            (
                "nodes_to_return",
                "Nodes that were connected before this start and have not returned yet.",
                totals.to_return,
            ),
            ("openings", "Connections being opened.", opening),
            ("openings_queued", "Connections waiting in the kernel's queue.", queued),
            ("objects_watched", "Objects in the object cache.", totals.objects),
            ("queue_depth", "Keys waiting in all nodes' queues.", totals.queued),
            ("in_flight", "Messages sent but not answered yet.", totals.in_flight),
            ("pending_objects", "Objects on their way to a connected node.", totals.pending),
            ("pending_oldest_seconds", "Age of the oldest object on its way.", totals.pending_oldest),
            ("parked_objects", "Objects that are parked after the last retry.", totals.parked),
            ("kept_objects", "Objects not deleted because the hub is not sure they are gone.", totals.kept),
            ("status_lag_seconds", "How long the oldest ObjectSync has been out of date.", totals.status_lag),
            ("status_dirty", "Documents whose status has not been written yet.", totals.unwritten),
            (
                "status_refused",
                "Documents that the API server refuses; writing them is retried.",
                totals.refused_writes,
            ),
            ("kinds_frozen", "Kinds that cannot be listed.", totals.kinds_frozen),
            ("collections_stale", "Watched collections that are not being followed.", len(self._freshness.all())),
            (
                "stale_seconds",
                "How long the oldest stale collection has not been followed.",
                self._freshness.oldest(now),
            ),
            (
                "versions_unserved",
                "apiVersions that rules name and the API server does not serve.",
                totals.versions_unserved,
            ),
            (
                "withheld_objects",
                "Objects withheld from nodes until topics are granted or a pause ends.",
                totals.withheld,
            ),
            ("nodes_paused", "Nodes that are paused by an annotation.", totals.nodes_paused),
            (
                "objects_paused",
                "Objects that are paused by an annotation.",
                totals.objects_paused,
            ),
            ("away_waiting", "Objects and away nodes waiting to be compared.", totals.away_waiting),
            ("identities_held", "Nodes whose certificate is held for approval.", totals.identities_held),
            ("nodes_deletion_guard", "Nodes whose deletions are stopped by the deletion guard.", totals.nodes_guarded),
            (
                "nodes_rate_limited",
                "Nodes waiting for the overall rate limit.",
                totals.rate_waiting,
            ),
            (
                "inputs_waiting",
                "Messages for modules that were accepted but not delivered yet.",
                self._inputs.waiting if self._inputs is not None else 0,
            ),
            ("fence", "Fencing number of this hub.", self._view.fence),
        ):
            yield GaugeMetricFamily(f"fairlead_hub_{name}", text, value=value)
        text = "SyncRules and EdgeRoutes that cannot be read."
        unreadable = GaugeMetricFamily("fairlead_hub_rules_unreadable", text, labels=["collection"])
        for collection, count in totals.rules_unreadable.items():
            unreadable.add_metric([collection], count)
        yield unreadable
        text = "Nodes by the authority that signed their newest certificate; connected: true, false."
        issuers = GaugeMetricFamily("fairlead_hub_certificates", text, labels=["issuer", "connected"])
        for (issuer, connected), count in sorted(totals.issuers.items()):
            issuers.add_metric([issuer, str(connected).lower()], count)
        yield issuers
        text = "Connected nodes by the authorities they trust: newest (the hub's), other, unknown (not reported yet)."
        held = GaugeMetricFamily("fairlead_hub_authorities_held", text, labels=["bundle"])
        for bundle, count in totals.authorities.items():
            held.add_metric([bundle], count)
        yield held
        if self._certificate_ends is not None:
            text = "Unix time at which the hub's own certificate expires; 0 if it cannot be read."
            name = "fairlead_hub_certificate_ends_timestamp_seconds"
            yield GaugeMetricFamily(name, text, value=self._certificate_ends())

        yield from self._signing()

    def _signing(self) -> Iterator[Metric]:
        if self._identity is None:
            return
        text = "Seconds by which this hub's clock is ahead of the API server's."
        yield GaugeMetricFamily("fairlead_hub_clock_skew_seconds", text, value=self._identity.skew)
        if (found := self._identity.signer_ends) is not None:
            text = "Unix time at which the authority that signs nodes' certificates expires."
            labels = ["authority", "fingerprint"]
            ends = GaugeMetricFamily("fairlead_hub_signer_ends_timestamp_seconds", text, labels=labels)
            ends.add_metric(list(found[:2]), found[2])
            yield ends

    def _counters(self, totals: HubTotals) -> Iterator[Metric]:
        counts, rim = self._view.counts, self._counts
        published, dropped = (self._publisher.published, self._publisher.dropped) if self._publisher else (0, 0)
        for name, text, value in (
            ("acks", "Objects acknowledged as durable.", counts.acks),
            ("removals", "Deletes acknowledged.", counts.removed),
            ("rate_limited", "Times a node started to wait for the overall rate limit.", totals.rate_delays),
            ("same_content", "Changes that did not change the delivered content.", counts.same_content),
            ("handshakes", "Sessions opened.", counts.handshakes),
            ("divergent_buckets", "Buckets that differed in an opening comparison.", counts.divergent_buckets),
            ("objectsyncs_collected", "ObjectSyncs of deleted nodes that were removed.", counts.objectsyncs_collected),
            ("absurd_fences", "Documents overwritten because of an impossible fence.", counts.absurd_fences),
            ("frames_sent", "Frames sent to nodes.", rim.frames_sent),
            ("sent_bytes", "Bytes sent to nodes.", rim.bytes_sent),
            ("frames_received", "Frames received from nodes.", rim.frames_received),
            ("received_bytes", "Bytes received from nodes.", rim.bytes_received),
            ("malformed", "Frames that broke the protocol.", rim.malformed),
            ("upstream_messages", "Messages stored in topics.", rim.upstream_messages),
            ("upstream_duplicates", "Messages that had already been stored.", rim.upstream_duplicates),
            ("events_published", "Events published on the system topic.", published),
            (
                "events_dropped",
                "Events dropped because the queue was full or they were refused.",
                totals.events_dropped + dropped,
            ),
        ):
            yield CounterMetricFamily(f"fairlead_hub_{name}", text, value=value)
        for name, text, label, table in (
            ("retries", "Sends that failed and were retried.", "reason", counts.retries),
            ("parkings", "Times an object was parked.", "reason", counts.parkings),
            ("refused_sessions", "Sessions refused or ended.", "code", counts.refused),
            ("openings_failed", "Connections that never became a session.", "reason", rim.openings_failed),
            ("status_writes", "Status writes, by outcome.", "outcome", counts.status_writes),
            ("api_requests", "Requests to the API server.", "method", self._kube.requests),
            ("upstream_refused", "Messages that were refused permanently.", "code", rim.upstream_refused),
            ("upstream_deferred", "Batches that nodes must send again.", "code", rim.upstream_deferred),
            ("renewals", "Renewals of node certificates, including late ones, by outcome.", "outcome", rim.renewals),
            ("joins", "Devices that asked for their first certificate, by outcome.", "outcome", rim.joins),
            ("inputs", "Messages for modules, by outcome.", "outcome", rim.inputs),
            ("status_reports", "Object statuses reported by nodes, by outcome.", "outcome", rim.reported),
            ("watch_restarts", "Watches that were resumed or restarted.", "reason", rim.watch_restarts),
            ("unusable_objects", "Objects that cannot be delivered.", "code", rim.unusable_objects),
        ):
            family = CounterMetricFamily(f"fairlead_hub_{name}", text, labels=[label])
            for labelled, count in sorted(table.items()):
                family.add_metric([labelled], count)
            yield family

    def _latency(self) -> Metric:
        counts = self._view.counts
        total, buckets = 0, []
        for bound, count in zip((*map(str, LATENCY_BUCKETS), "+Inf"), counts.latency, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(
            "fairlead_hub_delivery_seconds",
            "Time from a change to its ack.",
            buckets=buckets,
            sum_value=counts.latency_seconds,
        )
