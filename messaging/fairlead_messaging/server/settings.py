"""Settings of the messaging service; each key is also ``FAIRLEAD_MESSAGING_<KEY>``."""

from __future__ import annotations

import ipaddress
from typing import Literal

import msgspec

from fairlead_messaging.server.log.topic import TTL_SECONDS_MAX, expand_system_topics
from fairlead_wire.file_path import FilePath


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_bytes: int = 64 * 1024 * 1024
    """Payload bytes of recent messages kept in memory, over all topics; 0 turns the cache off."""

    def __post_init__(self) -> None:
        if self.max_bytes < 0:
            raise ValueError("max_bytes: must not be negative")


class CleanupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    interval_seconds: float = 60.0
    """How often expired and unreachable rows are removed."""

    def __post_init__(self) -> None:
        if not 0.05 <= self.interval_seconds <= 86_400:
            raise ValueError("interval_seconds: must be 0.05 to 86400")


class MessagingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    http_listen: str = "127.0.0.1:11015"
    health_listen: str | None = None
    """Where /healthz, /readyz and /metrics are served in plain HTTP; absent: http_listen, if that is plain."""
    data_dir: FilePath = "fairlead-messaging-data"
    store: Literal["rocksdb", "sqlite", "memory", "cassandra"] = "rocksdb"
    security: Literal["mtls", "insecure"] = "mtls"
    tls_ca: FilePath | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    clients: list[str] | None = None
    """Names in certificates that may ask; absent: everyone whom ``tls_ca`` vouches for."""
    system_topics: list[str] = []
    """Created in namespace ``system`` at start; ``prefix:N`` stands for prefix0 … prefix(N-1)."""
    default_ttl_seconds: int = 604_800
    poll_limit_max: int = 100_000
    poll_bytes_max: int = 16 * 1024 * 1024
    """Payload bytes after which a page ends, whatever its limit."""
    bulk_bytes_max: int = 64 * 1024 * 1024
    """The same for one Arrow page."""
    body_bytes_max: int = 16 * 1024 * 1024
    """Larger request bodies are refused (413) before they are parsed."""
    bodies_bytes_max: int = 256 * 1024 * 1024
    """Of all request bodies that are arriving or being worked on; beyond it callers are told to come back (503)."""
    pages_bytes_max: int = 256 * 1024 * 1024
    """Of all pages on their way to readers; beyond it polls are told to come back (503)."""
    long_polls_max: int = 10_000
    """Readers that wait for something new at the same time; others are told to come back (503)."""
    request_seconds_max: float = 60.0
    """How long a body may take to arrive (408) and a page to leave (the connection is closed)."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    cache: CacheSettings = CacheSettings()
    cleanup: CleanupSettings = CleanupSettings()

    def __post_init__(self) -> None:
        if self.store == "cassandra":
            raise ValueError("store: there is no cassandra store yet; use rocksdb, sqlite or memory (one machine each)")
        host, _ = parse_listen("http_listen", self.http_listen)
        if self.health_listen is not None:
            parse_listen("health_listen", self.health_listen)
        if self.security == "insecure" and not is_loopback(host):
            raise ValueError('http_listen: security = "insecure" listens on a loopback address only')
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    raise ValueError(f'{key}: required with security = "mtls"')
        elif self.clients is not None:
            raise ValueError('clients: needs security = "mtls", without which nobody has a name')
        if not 1 <= self.default_ttl_seconds <= TTL_SECONDS_MAX:
            raise ValueError(f"default_ttl_seconds: must be 1 to {TTL_SECONDS_MAX}")
        for key in ("poll_limit_max", "poll_bytes_max", "bulk_bytes_max", "body_bytes_max", "long_polls_max"):
            if not 1 <= getattr(self, key) <= 2**31 - 1:
                raise ValueError(f"{key}: must be 1 to {2**31 - 1}")
        for key in ("bodies_bytes_max", "pages_bytes_max"):
            if not self.body_bytes_max <= getattr(self, key) <= 2**40:
                raise ValueError(f"{key}: must be at least body_bytes_max ({self.body_bytes_max})")
        if not 0.05 <= self.request_seconds_max <= 3600:
            raise ValueError("request_seconds_max: must be 0.05 to 3600")
        try:
            expand_system_topics(self.system_topics)
        except ValueError as error:
            raise ValueError(f"system_topics: {error}") from None


def parse_listen(key: str, text: str) -> tuple[str, int]:
    """(host, port) of ``host:port``; port 0 lets the system choose.

    Raises: ValueError naming the key.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{key}: must be host:port, not {text!r}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
