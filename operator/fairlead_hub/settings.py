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
    """When an object is sent to a node again: the delays, and the number of retries before it is parked."""

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: Seconds = 1
    maximum_delay: Seconds = 30
    maximum_delay_retries: int = 0
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "exponential"
    backoff_retries: int | None = 5
    ack_timeout: Annotated[float, Field(ge=0.05, le=3600)] = 5.0
    """How long a message may stay unanswered before the first delay starts; arriving parts restart the time."""

    def policy(self) -> NodeDelivery:
        """The core's form of the policy. Raises ``mistakes.Wrong`` for keys that do not go together."""
        return NodeDelivery(**self.model_dump())


class RecordSettings(Model):
    """When the status of objects (ObjectSync) is written."""

    flush_seconds: Annotated[float, Field(ge=0.01, le=3600)] = 1.0
    """Changes of one ObjectSync within this time are combined into one write."""
    pending_seconds: Annotated[float, Field(ge=0.05, le=86_400)] = 30.0
    """If a connected node has been behind for longer than this, the ObjectSync becomes Pending."""
    writes_in_flight: Annotated[int, Field(ge=1, le=1024)] = 32
    """Maximum number of concurrent writes to the API server."""
    away_writes_per_second: Annotated[float, Field(ge=0, le=10_000)] = 100.0
    """Maximum number of writes a second for nodes that are away (state `Behind`); 0: their status stays as it was when
    they disconnected."""


class Reconcile(Model):
    """The SyncController's slow pass. It is a safety net; everything else is event-driven."""

    interval_seconds: Annotated[float, Field(ge=0.1, le=86_400)] = 300.0
    """How often all nodes are compared."""
    parked_retry_seconds: Annotated[float, Field(ge=0.1, le=86_400)] = 300.0
    """A parked object is retried after this time, then after twice as long, and so on."""
    parked_retry_max_seconds: Annotated[float, Field(ge=0.1, le=604_800)] = 3600.0
    """Maximum of this delay; at least `parked_retry_seconds`."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if self.parked_retry_max_seconds < self.parked_retry_seconds:
            least = f"{self.parked_retry_seconds:g}, is {self.parked_retry_max_seconds:g}"
            raise mistakes.wrong("parked_retry_max_seconds", f"must be at least parked_retry_seconds, {least}")
        return self


class DeletionGuardSettings(Model):
    """When deletions on a node stop until someone approves them."""

    removals_max: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """If more deletions than this are due on one node within the window, they stop until they are
    [approved](crds.md#pause-and-deletion-guard); 0: no limit."""
    window_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """The window in which deletions are counted."""


class WindowLimits(Model):
    """How much may be sent to one node without an acknowledgement."""

    messages: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Maximum number of unanswered messages."""
    bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 4 * 1024 * 1024
    """Maximum total size of unanswered messages."""
    chunk_bytes: Annotated[int, Field(ge=1024, le=2 * 1024 * 1024)] = 256 * 1024
    """Compressed content larger than this is sent in parts, so that slow links show progress."""


class RateLimit(Model):
    """An overall limit for sending to all nodes, in addition to the retries of each object
    ([why](../decisions/0453-overall-rate-limit-is-fair-to-priorities.md))."""

    objects_per_second: Annotated[float, Field(ge=0, le=1_000_000)] = 0.0
    """Updates and deletes a second sent to all nodes together, the most urgent priority first; 0: no limit."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """How many may be sent at once after a pause."""


class LinkServerSettings(Model):
    """The server that nodes connect to."""

    keepalive_seconds: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """Interval of keepalives; three intervals without a frame end a session."""
    nodes_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of sessions; further ones are refused as busy, with a time after which to retry."""
    handshakes_max: Annotated[int, Field(ge=1, le=65_536)] = 128
    """Maximum number of concurrent handshakes (TLS, upgrade, hello); later ones wait in the kernel's queue. One that
    takes longer than 3 s gives its slot to the next and continues; after 10 s it is closed."""
    upstream_window: Annotated[int, Field(ge=1, le=1024)] = 8
    """Maximum number of batches of one node in flight to messaging."""
    held_max: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    """Maximum number of objects that a node may claim to hold; more is refused as malformed."""
    recreated_nodes: Literal["hold", "accept"] = "hold"
    """Whether a certificate whose Node was deleted and recreated is held for [approval](crds.md#identity), or
    accepted."""


class EventSettings(Model):
    """Events that the hub publishes about nodes and objects."""

    topic: Annotated[str, AfterValidator(event.check_topic)] = event.TOPIC_DEFAULT
    """Topic for [events](events.md), created if it is missing; empty: no events. Needs `messaging_url`."""


class Traces(TracesModel):
    """Where spans are sent, how many, and where people view them."""

    link: Annotated[str, Field(max_length=2048)] | None = None
    """Address of a trace in your trace backend, `https://…{trace_id}…`, to which the [console](../howto/console.md)
    links trace ids. Absent: trace ids are plain text."""

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
    """Authority that signs only edge nodes ([why](../decisions/0437-certificate-authorities.md)); a node's identity is
    the name in its certificate. Absent: `tls_ca`."""
    signer: Literal["files", "cert-manager", "off"] | None = None
    """`files`: the hub signs with `ca_key`; `cert-manager`: it requests certificates from `issuer`; `off`: node
    certificates are created elsewhere. Absent: `files` if `ca_key` is set, otherwise `off`. Needs `mtls`."""
    ca_cert: FilePath | None = None
    """For `files`: the authority that signs only nodes (PEM). If the file has several, the first one signs. Read again
    when it changes, like `ca_key`."""
    ca_key: FilePath | None = None
    """Key of the first certificate in `ca_cert`."""
    issuer: Annotated[str, Field(max_length=317)] | None = None
    """For `cert-manager`: name of an Issuer in the hub's namespace, or `ClusterIssuer/name`."""
    installation: Annotated[str, Field(max_length=253), AfterValidator(_trust_domain)] = "fairlead"
    """Name of this installation in certificates: `spiffe://<installation>/node/<node>`."""
    certificate_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long a certificate is valid; a node renews it after two thirds of that time."""
    late_days: Annotated[int, Field(ge=0, le=3650)] = 90
    """How long after its expiry a node that was away can still use its certificate to get a new one; 0: not at all."""
    url: Annotated[str, Field(max_length=2048)] | None = None
    """Address at which devices reach this hub, `wss://host:port`; join tokens contain it. Absent: whoever creates a
    token gives it."""

    @property
    def signs_with(self) -> Literal["files", "cert-manager", "off"]:
        """The effective ``signer``, also where it is absent."""
        return self.signer or ("files" if self.ca_key else "off")


class ConsoleSettings(Model):
    """The [console](../howto/console.md) on `http_listen`."""

    enabled: bool = True
    """Serve the console at `/console/` to everyone who may use `/v1/…`; false: 404."""


class HubSettings(Model):
    """All settings of the hub."""

    kubeconfig: FilePath | None = None
    """Path of a kubeconfig file; absent: in-cluster configuration."""
    namespace: str | None = None
    """Namespace of the Lease; absent: the in-cluster namespace, or `default`."""
    lease_identity: str | None = None
    """Identity of this hub as holder of the Lease; absent: host name and `listen`. The same identity takes over at
    once."""
    listen: ListenAddress = "127.0.0.1:10000"
    """Address of the WebSocket for nodes."""
    http_listen: ListenAddress = "127.0.0.1:10002"
    """Address for health, metrics, `/v1/…` and `/console/`: plain HTTP on loopback; elsewhere, with `mtls`, for
    certificates of `tls_ca`."""
    health_listen: ListenAddress | None = None
    """A second address, only for health and metrics, always plain HTTP."""
    messaging_url: str | None = None
    """Address of messaging, `http://` or `https://`; absent: messages of nodes are answered with "not now"."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS, `listen` and `http_listen` must be loopback addresses, and nodes are not authenticated."""
    tls_ca: FilePath | None = None
    """Authority of messaging and of clients of `http_listen`; of nodes too if `link_ca` is absent. Required with
    `mtls`, like the next two; files are read again when they change."""
    tls_cert: FilePath | None = None
    """The hub's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log lines."""
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
