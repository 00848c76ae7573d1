"""What may be configured: values, their defaults and their limits.  ``app`` reads them, nothing else does.

Times are seconds, sizes bytes.  Every nested struct is one TOML table (contract section 4).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead_wire import event, listen_address
from fairlead_wire.delivery import DeliveryPolicy
from fairlead_wire.file_path import FilePath


class Delivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The delivery policy towards nodes: the shared policy with the hub's own defaults (contract section 5).

    One send and up to five retries, 1 to 30 s apart, then parked.  A SyncRule's ``delivery`` is read with the same
    defaults, so a rule that names only ``retries_max`` keeps the rest.
    """

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 30
    maximum_delay_retries: int = 0
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "exponential"
    backoff_retries: int | None = 5
    ack_timeout: float = 5.0
    """How long a message may be unanswered before the first delay starts; arriving chunks restart it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.05 <= self.ack_timeout <= 3600:
            raise ValueError(f"ack_timeout: must be from 0.05 to 3600 seconds, is {self.ack_timeout:g}")


def _within(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{key}: must be from {low:g} to {high:g}, is {value:g}")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When records (ObjectSync) are written."""

    flush_seconds: float = 1.0
    """Changes of one record within this time become one write."""
    pending_seconds: float = 30.0
    """A connected node that lags longer than this is written down as Pending."""
    writes_in_flight: int = 32

    def __post_init__(self) -> None:
        _within("flush_seconds", self.flush_seconds, 0.01, 3600)
        _within("pending_seconds", self.pending_seconds, 0.05, 86_400)
        _within("writes_in_flight", self.writes_in_flight, 1, 1024)


class Reconcile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The SyncController's slow pass: the safety net, everything else is event-driven."""

    interval_seconds: float = 300.0
    parked_retry_seconds: float = 300.0
    """A parked object is tried once more after this long, then after twice as long, up to ``parked_retry_max``."""
    parked_retry_max_seconds: float = 3600.0

    def __post_init__(self) -> None:
        _within("interval_seconds", self.interval_seconds, 0.1, 86_400)
        _within("parked_retry_seconds", self.parked_retry_seconds, 0.1, 86_400)
        _within("parked_retry_max_seconds", self.parked_retry_max_seconds, self.parked_retry_seconds, 604_800)


class DeletionGuard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When removals at a node stop until somebody says that they are meant."""

    removals_max: int = 0
    """Objects of one node that may be removed within the window; 0: as many as there are."""
    window_seconds: float = 60.0

    def __post_init__(self) -> None:
        _within("removals_max", self.removals_max, 0, 1_000_000)
        _within("window_seconds", self.window_seconds, 1, 86_400)


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be unacknowledged towards one node at once."""

    messages: int = 256
    bytes: int = 4 * 1024 * 1024
    chunk_bytes: int = 256 * 1024
    """Packed contents above this travel in parts, so that slow links show progress."""

    def __post_init__(self) -> None:
        _within("messages", self.messages, 1, 65_536)
        _within("bytes", self.bytes, 1024, 1 << 30)
        _within("chunk_bytes", self.chunk_bytes, 1024, 2 * 1024 * 1024)


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server edges connect to."""

    keepalive_seconds: float = 10.0
    nodes_max: int = 10_000
    """Sessions above this are refused as busy, with a time to come back."""
    handshakes_max: int = 128
    """Openings (TLS, upgrade, hello) begun at once; who comes later waits in the kernel's queue."""
    upstream_window: int = 8
    held_max: int = 100_000
    """Objects one edge may say it holds; more is refused as malformed."""
    recreated_nodes: Literal["hold", "accept"] = "hold"
    """What becomes of a certificate whose Node was deleted and made again: held until approved, or taken."""

    def __post_init__(self) -> None:
        _within("keepalive_seconds", self.keepalive_seconds, 0.1, 600)
        _within("nodes_max", self.nodes_max, 1, 1_000_000)
        _within("handshakes_max", self.handshakes_max, 1, 65_536)
        _within("upstream_window", self.upstream_window, 1, 1024)
        _within("held_max", self.held_max, 1, 10_000_000)


class Events(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hub tells of itself."""

    topic: str = event.TOPIC_DEFAULT
    """Made where it is missing; empty: nothing is told.  Needs ``messaging_url``."""

    def __post_init__(self) -> None:
        event.check_topic("topic", self.topic)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the hub can be told."""

    kubeconfig: FilePath | None = None
    """Path; absent: in-cluster."""
    namespace: str | None = None
    """Where the Lease lives; absent: the in-cluster namespace, else ``default``."""
    listen: str = "127.0.0.1:10000"
    http_listen: str = "127.0.0.1:10002"
    health_listen: str | None = None
    messaging_url: str | None = None
    security: Literal["mtls", "insecure"] = "mtls"
    tls_ca: FilePath | None = None
    """Authority of messaging and of whoever may look at ``http_listen``; of nodes too where ``link_ca`` is absent."""
    link_ca: FilePath | None = None
    """Authority of edge nodes, and of nobody else."""
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    identity: str | None = None
    """Holder name in the Lease; absent: host name and port.  The same identity takes over at once."""
    delivery: Delivery = Delivery()
    record: Record = Record()
    reconcile: Reconcile = Reconcile()
    brake: DeletionGuard = DeletionGuard()
    window: WindowLimits = WindowLimits()
    link: Link = Link()
    events: Events = Events()

    def __post_init__(self) -> None:
        for key in ("listen", "http_listen", "health_listen"):
            value = getattr(self, key)
            if value is not None:
                listen_address.parse(key, value)
        if self.security == "insecure":
            host, _ = listen_address.parse("listen", self.listen)
            if not listen_address.is_loopback(host):
                raise ValueError(f'listen: security = "insecure" binds to loopback only, not to {host}')
        else:
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    raise ValueError(f'{key}: needed with security = "mtls"')
        if self.messaging_url is not None and not self.messaging_url.startswith(("http://", "https://")):
            raise ValueError("messaging_url: must begin with http:// or https://")
