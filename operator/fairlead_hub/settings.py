"""The hub's settings file, or ``FAIRLEAD_HUB_*``: keys, defaults, limits.  ``app`` reads them.

Every nested model is one TOML table (contract section 4); the text below a key is its description on the reference
page. Times are seconds, sizes bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import pydantic
from pydantic import AfterValidator, Field

from fairlead_wire import event
from fairlead_wire.delivery_model import DeliveryModel, Seconds
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.traces.model import TracesModel
from fairlead_wire.validation import listen_address, mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import ListenAddress, Model

_TRUST_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class NodeDelivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The delivery policy towards nodes: the shared policy with the hub's own defaults (contract section 5).

    One send and up to five retries, 1 to 30 s apart, then parked. A SyncRule's ``delivery`` is read with the same
    defaults, so a rule that sets only ``retries_max`` keeps the rest.
    """

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 30
    maximum_delay_retries: int = 0
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "exponential"
    backoff_retries: int | None = 5
    ack_timeout: float = 5.0
    """How long to wait for an answer before the first delay starts; arriving chunks restart the wait."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.05 <= self.ack_timeout <= 3600:
            raise mistakes.wrong("ack_timeout", f"must be a number from 0.05 to 3600, is {self.ack_timeout:g}")


class DeliverySettings(DeliveryModel):
    """When an object is sent to a node again: after which delay, and how often until it is parked."""

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: Seconds = 1
    maximum_delay: Seconds = 30
    maximum_delay_retries: int = 0
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "exponential"
    backoff_retries: int | None = 5
    ack_timeout: Annotated[float, Field(ge=0.05, le=3600)] = 5.0
    """How long to wait for an answer before the first delay starts; arriving parts restart the wait."""

    def policy(self) -> NodeDelivery:
        """The core's form of the policy. Raises ``mistakes.Wrong`` for keys that do not go together."""
        return NodeDelivery(**self.model_dump())


class RecordSettings(Model):
    """When the status of objects (ObjectSync) is written."""

    flush_seconds: Annotated[float, Field(ge=0.01, le=3600)] = 1.0
    """Changes of one ObjectSync within this time are combined into one write."""
    pending_seconds: Annotated[float, Field(ge=0.05, le=86_400)] = 30.0
    """A connected node that has been behind for longer than this is recorded as Pending."""
    writes_in_flight: Annotated[int, Field(ge=1, le=1024)] = 32
    """Parallel writes to the API server."""
    away_writes_per_second: Annotated[float, Field(ge=0, le=10_000)] = 100.0
    """Limit of writes per second for nodes that are away (state `Behind`); 0: the records of such nodes stay as they
    were when they disconnected."""


class Reconcile(Model):
    """The SyncController's slow pass: a safety net, since everything else is event-driven."""

    interval_seconds: Annotated[float, Field(ge=0.1, le=86_400)] = 300.0
    """Interval between complete comparisons."""
    parked_retry_seconds: Annotated[float, Field(ge=0.1, le=86_400)] = 300.0
    """A parked object is retried after this long, then after twice as long, and so on."""
    parked_retry_max_seconds: Annotated[float, Field(ge=0.1, le=604_800)] = 3600.0
    """Upper limit of the delays between retries of a parked object; not below `parked_retry_seconds`."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if self.parked_retry_max_seconds < self.parked_retry_seconds:
            least = f"{self.parked_retry_seconds:g}, is {self.parked_retry_max_seconds:g}"
            raise mistakes.wrong("parked_retry_max_seconds", f"must be at least parked_retry_seconds, {least}")
        return self


class DeletionGuardSettings(Model):
    """When deletions at a node stop until a person approves them."""

    removals_max: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """If more deletions than this are due for one node within the window, they stop until they are
    [approved](crds.md#pause-and-deletion-guard); 0: no limit."""
    window_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """The window in which deletions are counted."""


class WindowLimits(Model):
    """What may be unacknowledged by one node at a time."""

    messages: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Messages without an answer."""
    bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 4 * 1024 * 1024
    """Their total size."""
    chunk_bytes: Annotated[int, Field(ge=1024, le=2 * 1024 * 1024)] = 256 * 1024
    """Packed contents above this size are sent in parts, so that slow links show progress."""


class RateLimit(Model):
    """An overall limit for everything sent to all nodes, beside the retries of each object
    ([why](../decisions/0453-overall-rate-limit-is-fair-to-priorities.md))."""

    objects_per_second: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """Updates and deletes per second for all nodes together, the most urgent priority first; 0: no limit."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """How many may be sent at once after a pause."""


class LinkServerSettings(Model):
    """The server that edges connect to."""

    keepalive_seconds: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """Interval between keepalives. A session ends after three intervals without a frame."""
    nodes_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Further sessions are refused as busy, with a time to retry."""
    handshakes_max: Annotated[int, Field(ge=1, le=65_536)] = 128
    """Handshakes (TLS, upgrade, hello) in progress at once; later ones wait in the kernel's queue. A handshake that
    takes longer than 3 s gives its place to the next and continues; one that takes 10 s is closed."""
    upstream_window: Annotated[int, Field(ge=1, le=1024)] = 8
    """Batches of one node on their way to messaging at once."""
    held_max: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    """Objects one edge may report to hold; more is refused as malformed."""
    recreated_nodes: Literal["hold", "accept"] = "hold"
    """Whether a certificate from before its Node was deleted and recreated is accepted, or waits for
    [approval](crds.md#identity)."""


class EventSettings(Model):
    """What the hub publishes about nodes and objects."""

    topic: Annotated[str, AfterValidator(event.check_topic)] = event.TOPIC_DEFAULT
    """Topic for [events](events.md), created if missing; empty: none are published. Requires `messaging_url`."""


class Traces(TracesModel):
    """Where spans are sent, what fraction of them, and where people view them."""

    link: Annotated[str, Field(max_length=2048)] | None = None
    """Address of a trace in your trace backend, `https://…{trace_id}…`: the [console](../howto/console.md) links
    trace ids to it. Absent: trace ids are plain text."""

    @pydantic.model_validator(mode="after")
    def _check_link(self) -> Self:
        if self.link is not None and not _is_link(self.link):
            expected = "must be http://host/… or https://host/… with {trace_id} after the host, without a password"
            raise mistakes.wrong("link", f"{expected}, is {mistakes.shown(self.link)}")
        return self


def _is_link(link: str) -> bool:
    """Whether a page may link there."""
    try:
        url = urlsplit(link)
        has_host = bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False
    is_address = url.scheme in ("http", "https") and has_host and "@" not in url.netloc and "\\" not in link
    return is_address and link.isprintable() and " " not in link and "{trace_id}" in link and "{" not in url.netloc


def _trust_domain(name: str) -> str:
    if _TRUST_DOMAIN.fullmatch(name) is None:
        raise mistakes.wrong("", f"must be small letters, digits, - and ., is {mistakes.shown(name)}")
    return name


class IdentitySettings(Model):
    """How nodes get and renew their certificates."""

    link_ca: FilePath | None = None
    """Authority that signs only edge nodes ([why](../decisions/0437-certificate-authorities.md)); a node's identity
    is the name in its certificate. Absent: `tls_ca`."""
    signer: Literal["files", "cert-manager", "off"] | None = None
    """`files`: the hub signs with `ca_key`; `cert-manager`: it requests certificates from `issuer`; `off`:
    certificates of nodes are made elsewhere. Absent: `files` if `ca_key` is set, else `off`. Requires `mtls`."""
    ca_cert: FilePath | None = None
    """Authority that signs only nodes, PEM, for `files`. The file may contain several; the first one signs. Read
    again when it changes, as is `ca_key`."""
    ca_key: FilePath | None = None
    """The key of the first certificate in `ca_cert`."""
    issuer: Annotated[str, Field(max_length=317)] | None = None
    """For `cert-manager`: name of an Issuer in the hub's namespace, or `ClusterIssuer/name`."""
    installation: Annotated[str, Field(max_length=253), AfterValidator(_trust_domain)] = "fairlead"
    """Identifies this installation in certificates: `spiffe://<installation>/node/<node>`."""
    certificate_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long a certificate is valid; a node renews it after two thirds of that time."""
    late_days: Annotated[int, Field(ge=0, le=3650)] = 90
    """How long after its expiry a certificate may still be used by a node that was away, only to get a new one; 0:
    not at all."""
    url: Annotated[str, Field(max_length=2048)] | None = None
    """Where devices dial this hub, `wss://host:port`; included in join tokens. Absent: it is given when a token is
    created."""

    @property
    def signs_with(self) -> Literal["files", "cert-manager", "off"]:
        """The effective ``signer``, also where it is absent."""
        return self.signer or ("files" if self.ca_key else "off")


class ConsoleSettings(Model):
    """The [console](../howto/console.md) on `http_listen`."""

    enabled: bool = True
    """Whether it is served at `/console/`, to everyone who may use `/v1/…` there; false: 404."""


class HubSettings(Model):
    """All settings of the hub."""

    kubeconfig: FilePath | None = None
    """Path of a kubeconfig; absent: in-cluster."""
    namespace: str | None = None
    """Namespace of the Lease; absent: the in-cluster namespace, else `default`."""
    lease_identity: str | None = None
    """Holder of the Lease; absent: host name and `listen`. A hub with the same identity takes over immediately."""
    listen: ListenAddress = "127.0.0.1:10000"
    """Address of the WebSocket server for edges."""
    http_listen: ListenAddress = "127.0.0.1:10002"
    """Address for health, metrics, `/v1/…` and `/console/`: plain HTTP on loopback; elsewhere, with `mtls`, for
    certificates of `tls_ca`."""
    health_listen: ListenAddress | None = None
    """A second address for health and metrics only, always plain HTTP."""
    messaging_url: str | None = None
    """`http://` or `https://`; absent: messages of nodes are answered "not now"."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS, `listen` and `http_listen` must be loopback addresses, and nodes may claim any name."""
    tls_ca: FilePath | None = None
    """Authority of messaging and of clients of `http_listen`; also of nodes if `link_ca` is absent. Required with
    `mtls`, as are the two below; files are read again when they change."""
    tls_cert: FilePath | None = None
    """The hub's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lines below this level are not written."""
    delivery: DeliverySettings = DeliverySettings()
    record: RecordSettings = RecordSettings()
    reconcile: Reconcile = Reconcile()
    deletion_guard: DeletionGuardSettings = DeletionGuardSettings()
    window: WindowLimits = WindowLimits()
    rate_limit: RateLimit = RateLimit()
    link: LinkServerSettings = LinkServerSettings()
    events: EventSettings = EventSettings()
    traces: Traces = Traces()
    console: ConsoleSettings = ConsoleSettings()
    identity: IdentitySettings = IdentitySettings()

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        for key in ("listen", "http_listen"):
            host, _ = listen_address.parse(getattr(self, key))
            if self.security == "insecure" and not listen_address.is_loopback(host):
                yield Mistake(key, f'must be a loopback address with security = "insecure", is {host}')
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    yield Mistake(key, 'required with security = "mtls"')
        yield from self._identity_wrong()
        if self.messaging_url is not None and not self.messaging_url.startswith(("http://", "https://")):
            yield Mistake("messaging_url", "must begin with http:// or https://")

    def _identity_wrong(self) -> Iterator[Mistake]:
        identity = self.identity
        if identity.url is not None and not identity.url.startswith("wss://"):
            yield Mistake("identity.url", f"must be wss://host:port, is {mistakes.shown(identity.url)}")
        if identity.signs_with in ("files", "cert-manager") and self.security != "mtls":
            yield Mistake("identity.signer", 'needs security = "mtls": without it nodes have no certificates')
        if identity.signs_with == "files":
            for key in ("ca_cert", "ca_key"):
                if not getattr(identity, key):
                    yield Mistake(f"identity.{key}", 'required with signer = "files"')
        if identity.signs_with == "cert-manager" and not identity.issuer:
            yield Mistake("identity.issuer", 'required with signer = "cert-manager"')
