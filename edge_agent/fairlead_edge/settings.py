"""What an edge agent is told by its settings file or ``FAIRLEAD_EDGE_*``; values only, checked for sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead_wire import listen_address
from fairlead_wire.file_path import FilePath
from fairlead_wire.listen_address import is_loopback
from fairlead_wire.mistakes import shown

STORE_BYTES_MIN: Final = 16 * 1024
OBJECTS_SHARE: Final = 4
"""One part in so many of ``max_bytes`` is for objects, the rest for messages: neither can starve the other."""
HUB_PORT: Final = 10000
"""Where a hub listens unless it is told otherwise."""

_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``max_bytes``: what objects and messages together may take on disk (write-ahead logs come on top).

    ``evict`` says what a full store does with a message that arrives: refuse it (``never``), or drop the oldest of the
    queues that are less urgent to make room, counted as evicted (``less-urgent``).
    """

    max_bytes: int = 1024 * 1024 * 1024
    evict: Literal["never", "less-urgent"] = "never"

    def __post_init__(self) -> None:
        if self.max_bytes < STORE_BYTES_MIN:
            raise ValueError(f"max_bytes: must be at least {STORE_BYTES_MIN}, is {self.max_bytes}")

    @property
    def object_bytes(self) -> int:
        return self.max_bytes // OBJECTS_SHARE

    @property
    def message_bytes(self) -> int:
        return self.max_bytes - self.object_bytes


class CleanupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often what has expired is removed, and whether behind live messages too, not only at the front."""

    interval_seconds: float = 60.0
    check_entire_queue_on_cleanup: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.interval_seconds <= 86_400:
            raise ValueError(f"interval_seconds: must be above 0 and at most 86400, is {self.interval_seconds:g}")


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``attempt_seconds_max``: longest pause between two attempts to reach the hub; each is jittered."""

    attempt_seconds_max: float = 1.0

    def __post_init__(self) -> None:
        if not 0.01 <= self.attempt_seconds_max <= 3600:
            raise ValueError(f"attempt_seconds_max: must be 0.01 to 3600, is {self.attempt_seconds_max:g}")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.  ``health_listen`` absent: health is served on ``http_listen``."""

    node: str
    hub_url: str
    data_dir: FilePath
    http_listen: str = "127.0.0.1:10550"
    health_listen: str | None = None
    security: Literal["mtls", "insecure"] = "mtls"
    tls_ca: FilePath | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    store: StoreSettings = StoreSettings()
    cleanup: CleanupSettings = CleanupSettings()
    link: LinkSettings = LinkSettings()

    def __post_init__(self) -> None:
        if wrong := list(self._wrong()):
            raise ValueError("\n".join(wrong))

    def _wrong(self) -> Iterator[str]:
        """Everything at once, a line each."""
        if not _NODE.fullmatch(self.node):
            yield f"node: must be the name of a Kubernetes Node, is {shown(self.node)}"
        if not self.data_dir:
            yield "data_dir: must be a folder"
        for key in ("http_listen", "health_listen"):
            value = getattr(self, key)
            if value is not None and (reason := _listen_wrong(key, value)):
                yield reason
        yield from self._hub_url_wrong()
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    yield f'{key}: required with security = "mtls"'
        elif not _listen_wrong("http_listen", self.http_listen) and not self.plain_http:
            yield 'http_listen: must be a loopback address with security = "insecure"'

    def _hub_url_wrong(self) -> Iterator[str]:
        try:
            url = urlsplit(self.hub_url)
            port = url.port
        except ValueError as error:
            yield f"hub_url: {error}"
            return
        if url.scheme not in ("ws", "wss") or not url.hostname:
            yield f"hub_url: must be wss://host:port, is {shown(self.hub_url)}"
        elif not port:
            # The scheme's own port is hardly ever meant, and its symptom is a link that does not come up.
            yield f"hub_url: must name the port, for example {url.scheme}://{url.hostname}:{HUB_PORT}"
        elif url.scheme == "ws" and self.security != "insecure":
            yield 'hub_url: ws:// only with security = "insecure"'

    @property
    def plain_http(self) -> bool:
        """The local API answers plain HTTP on loopback only; elsewhere TLS alone, with ``tls_cert``."""
        return is_loopback(listen_address.parse("http_listen", self.http_listen)[0])


def _listen_wrong(key: str, text: str) -> str:
    try:
        listen_address.parse(key, text)
    except ValueError as error:
        return str(error)
    return ""
