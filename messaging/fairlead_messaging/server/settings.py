"""The settings of the messaging service, from its file or ``FAIRLEAD_MESSAGING_*``: keys, defaults, limits.

Every nested model is a TOML table; the text below a key is its line on the reference page.  Times are in seconds, sizes
in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import AfterValidator, Field

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import access
from fairlead_messaging.server.access import AccessEntry, AccessTable
from fairlead_messaging.server.log.topic import TTL_SECONDS_MAX, expand_system_topics
from fairlead_messaging.server.quotas import QuotaModel
from fairlead_messaging.server.transactions.transaction import (
    HOLD_UP_SECONDS_MAX,
    LIFETIME_SECONDS_MAX,
    TIMEOUT_SECONDS_MAX,
    TransactionLimits,
)
from fairlead_wire.traces.model import TracesModel
from fairlead_wire.validation import listen_address, mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import ListenAddress, Model

ENTRIES_MAX: Final = 10_000
AUDIENCE: Final = "fairlead-messaging"


class AccessModel(Model):
    """Grants of one subject; several entries of a subject add up. Anything that no entry grants gets 403."""

    subject: str
    """The name in a certificate (common name, or the first DNS name), a SPIFFE URI (`spiffe://…`), or
    `serviceaccount:NAMESPACE:NAME`."""
    verbs: Annotated[list[str], Field(min_length=1)]
    """`publish`, `consume`, `administer`; `create` is the part of `administer` that creates topics."""
    topics: Annotated[list[str], Field(min_length=1, max_length=ENTRIES_MAX)]
    """Globs of `namespace/name`: `*` matches any characters within one part, `*` alone matches every topic, and a
    leading `!` excludes topics from this entry."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        try:
            access.parse_subject(self.subject)
        except ValueError as error:
            yield Mistake("subject", f"{error}, is {mistakes.shown(self.subject)}")
        for index, verb in enumerate(self.verbs):
            if verb not in set(Verb):
                yield Mistake(f"verbs[{index}]", mistakes.not_one_of(Verb, verb))
        for index, text in enumerate(self.topics):
            try:
                access.parse_glob(text)
            except ValueError as error:
                yield Mistake(f"topics[{index}]", f"{error}; is {mistakes.shown(text)}")
        if all(text.startswith("!") for text in self.topics):
            yield Mistake("topics", "grants nothing: each pattern excludes topics; add * to begin with all")

    @property
    def entry(self) -> AccessEntry:
        return AccessEntry(
            access.parse_subject(self.subject),
            frozenset(map(Verb, self.verbs)),
            tuple(map(access.parse_glob, self.topics)),
        )


class TokenReviewModel(Model):
    """The Kubernetes API that checks tokens of ServiceAccounts (`POST …/tokenreviews`). Used if an entry of `access`
    names a ServiceAccount."""

    kubeconfig: FilePath | None = None
    """Path of a kubeconfig file; absent: in-cluster configuration. Needs the ClusterRole `system:auth-delegator`."""
    audience: Annotated[str, Field(min_length=1, max_length=253)] = AUDIENCE
    """Required audience of a token (`audiences` of a projected token); a token for the API server itself is not
    accepted."""


def access_table(entries: list[AccessModel]) -> AccessTable:
    return AccessTable(each.entry for each in entries)


PORT: Final = 9042
PORT_DIGITS_MAX: Final = 5
NOT_IN_A_HOST: Final = frozenset("@/ ")
CONSISTENCIES: Final = ("LOCAL_QUORUM", "QUORUM", "ALL", "LOCAL_ONE", "ONE")
"""The consistency of reads and writes. The last two only for keyspaces with one copy."""


def _consistency(name: str) -> str:
    if name.upper() not in CONSISTENCIES:
        raise ValueError(mistakes.not_one_of(CONSISTENCIES, name))
    return name.upper()


def contact_point(text: str) -> tuple[str, int]:
    """Host and port of ``host`` or ``host:port``; IPv6 in brackets where it has a port.  Raises: ValueError."""
    host, port = text, str(PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"must be host or host:port, is {mistakes.shown(text)}")
        port = rest[1:] or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX
    if not host or not NOT_IN_A_HOST.isdisjoint(host) or not is_number or not 0 < int(port) < 65536:
        raise ValueError(f"must be host or host:port, is {mistakes.shown(text)}")
    return host, int(port)


def _contact_point(text: str) -> str:
    contact_point(text)
    return text


class CassandraModel(Model):
    """For `store = "cassandra"`; [how to use it](../howto/messaging-on-cassandra.md)."""

    contact_points: list[Annotated[str, AfterValidator(_contact_point)]] = Field(default=[], max_length=64)
    """Some Cassandra nodes, as `host` or `host:port` (9042); they know the others. Required with
    `store = "cassandra"`."""
    keyspace: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,47}$")] = "fairlead"
    """Keyspace used only by this service. Created with up to three copies in the data center if it is missing and the
    user is allowed to."""
    datacenter: str | None = None
    """Data center whose nodes are used; absent: that of the first contact point that answers."""
    consistency: Annotated[str, AfterValidator(_consistency)] = "LOCAL_QUORUM"
    """Consistency of reads and writes: `LOCAL_QUORUM`, `QUORUM`, `ALL`; `LOCAL_ONE` and `ONE` only for a keyspace with
    one copy."""
    username: str | None = None
    """User name, with `password_file`; absent: no login."""
    password_file: FilePath | None = None
    """File with the password; read again at every connection, so it can be changed while the service runs."""
    tls_ca: FilePath | None = None
    """Authority of the nodes' certificates, which must contain their addresses; absent: no TLS."""


COUNT_MAX: Final = 2**31 - 1
BUDGET_MAX: Final = 2**40

Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Budget = Annotated[int, Field(ge=1, le=BUDGET_MAX)]


def _system_topics(names: list[str]) -> list[str]:
    expand_system_topics(names)
    return names


class CacheSettings(Model):
    """Cache of recent messages."""

    max_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    """Payload bytes of recent messages kept in memory, over all topics; 0 disables the cache."""


class CleanupSettings(Model):
    """Removal of rows that can no longer be read."""

    interval_seconds: Annotated[float, Field(ge=0.05, le=86_400)] = 60.0
    """How often expired and unreachable rows are removed."""


class TransactionSettings(Model):
    """How long transactions may last and block readers."""

    timeout_seconds_max: Annotated[float, Field(gt=0, le=86_400)] = TIMEOUT_SECONDS_MAX
    """Maximum timeout that a transaction may request; if it is not renewed in time it becomes invalid."""
    lifetime_seconds_max: Annotated[float, Field(gt=0, le=2_592_000)] = LIFETIME_SECONDS_MAX
    """Maximum lifetime of a transaction, with any number of renewals; at least `timeout_seconds_max`."""
    hold_up_seconds_max: Annotated[float, Field(gt=0, le=TTL_SECONDS_MAX)] = HOLD_UP_SECONDS_MAX
    """How long messages of an open transaction may block the readers of a topic without its own `hold_up_seconds_max`;
    then the transaction becomes invalid. Messages that are stored but not published yet do not block readers."""

    @property
    def limits(self) -> TransactionLimits:
        """The limits for the transaction manager."""
        return TransactionLimits(
            timeout_seconds_max=self.timeout_seconds_max,
            lifetime_seconds_max=self.lifetime_seconds_max,
            hold_up_seconds_max=self.hold_up_seconds_max,
        )


class MessagingSettings(Model):
    """All settings."""

    http_listen: ListenAddress = "127.0.0.1:11015"
    """Address of the REST API: HTTPS with `mtls`, plain HTTP with `insecure`; for port 0 the system chooses."""
    health_listen: ListenAddress | None = None
    """Address for `/healthz`, `/readyz` and `/metrics` in plain HTTP; absent: `http_listen`, if that is plain HTTP."""
    data_dir: FilePath = "fairlead-messaging-data"
    """Data folder of one process, for any store except `memory`; a second process exits with 1 and names the first
    (`data_dir/lock`, which the kernel releases when its process ends)."""
    store: Literal["rocksdb", "sqlite", "memory", "cassandra"] = "rocksdb"
    """`sqlite` needs only Python, and its file shrinks by up to 256 MiB per cleanup pass if more than a quarter of it
    is free; `memory` keeps nothing across restarts; `cassandra` keeps everything in the keyspace of `[cassandra]`, and
    nothing in `data_dir`."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS; `http_listen` must be a loopback address."""
    tls_ca: FilePath | None = None
    """Authority of clients; required with `mtls`, like the next two. Files are read again when they change."""
    tls_cert: FilePath | None = None
    """The service's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    access: list[AccessModel] = Field(default=[])
    """Who may do what on which topics; anything that no entry grants gets 403 `forbidden`. Needs `mtls`."""
    token_review: TokenReviewModel = TokenReviewModel()
    quotas: list[QuotaModel] = Field(default=[])
    """Limits of namespaces; beyond them, publishing and creating topics get 429 with `Retry-After`."""
    system_topics: Annotated[list[str], AfterValidator(_system_topics)] = Field(default=[])
    """Topics to create at startup in namespace `system`, which is reserved for Fairlead; `prefix:N` stands for prefix0
    … prefix(N-1). Hub and ingest create `system/events` themselves ([events](events.md))."""
    default_ttl_seconds: Annotated[int, Field(ge=1, le=TTL_SECONDS_MAX)] = 604_800
    """Time to live of messages in topics that do not set their own."""
    poll_limit_max: Count = 100_000
    """Maximum number of messages in one page, whatever a client requests."""
    poll_bytes_max: Count = 16 * 1024 * 1024
    """Payload bytes after which a page ends, whatever limit a client requests."""
    bulk_bytes_max: Count = 64 * 1024 * 1024
    """The same for an Arrow page."""
    body_bytes_max: Count = 16 * 1024 * 1024
    """Larger request bodies get 413 before they are parsed; the number of messages in one is not limited separately."""
    bodies_bytes_max: Budget = 256 * 1024 * 1024
    """Total size of bodies being received or processed, at least `body_bytes_max`; beyond it: 503 `too_many_bodies`. In
    the worst case about three times as much memory is used. A message counts 256 bytes plus its body (so a request has
    at most about a million), and a request that alone would exceed the limit gets 413 `too_many_messages`."""
    pages_bytes_max: Budget = 256 * 1024 * 1024
    """Total size of pages being sent to readers, at least `body_bytes_max`; beyond it: 503 `too_many_pages`."""
    long_polls_max: Count = 10_000
    """Maximum number of readers waiting for new messages; beyond it: 503 `too_many_long_polls`."""
    request_seconds_max: Annotated[float, Field(ge=0.05, le=3600)] = 60.0
    """How long a body may take to arrive (then 408), and a page to be sent (then the connection is closed)."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log lines."""
    cassandra: CassandraModel = CassandraModel()
    cache: CacheSettings = CacheSettings()
    cleanup: CleanupSettings = CleanupSettings()
    transactions: TransactionSettings = TransactionSettings()
    traces: TracesModel = TracesModel()

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        if self.store == "cassandra":
            if not self.cassandra.contact_points:
                yield Mistake("cassandra.contact_points", 'required with store = "cassandra": name some of its nodes')
            if (self.cassandra.username is None) != (self.cassandra.password_file is None):
                missing = "username" if self.cassandra.username is None else "password_file"
                yield Mistake(f"cassandra.{missing}", "username and password_file go together")
        host, _ = listen_address.parse(self.http_listen)
        if self.security == "insecure" and not listen_address.is_loopback(host):
            yield Mistake("http_listen", f'must be a loopback address with security = "insecure", is {host}')
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    yield Mistake(key, 'required with security = "mtls"')
        else:
            if self.access:
                yield Mistake("access", 'needs security = "mtls": without it no client has a name')
        if self.transactions.lifetime_seconds_max < self.transactions.timeout_seconds_max:
            yield Mistake(
                "transactions.lifetime_seconds_max",
                f"must be at least timeout_seconds_max ({self.transactions.timeout_seconds_max:g}), "
                f"is {self.transactions.lifetime_seconds_max:g}",
            )
        for key in ("bodies_bytes_max", "pages_bytes_max"):
            value = getattr(self, key)
            if value < self.body_bytes_max:
                yield Mistake(key, f"must be at least body_bytes_max ({self.body_bytes_max}), is {value}")
