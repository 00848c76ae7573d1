"""What the settings file of an edge agent, or ``FAIRLEAD_EDGE_*``, may say; values only, checked for sense.

The text below a key is its line on the reference page.  Times are seconds, sizes bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_edge.mqtt.settings import MqttSettings, find_mistakes
from fairlead_edge.outbox.delivery import BROKERED_POLICY, UPSTREAM_POLICY, BrokeredDelivery, UpstreamDelivery
from fairlead_edge.outbox.outbox import REFUSED_INPUT_DEFAULT, RefusedInputPolicy
from fairlead_edge.outbox.plan.windows import LINK_BYTES_MAX, WindowSettings, zone_mistakes
from fairlead_edge.outbox.pump.pace import FLOOR_SHARE_MAX, LIVE_FIRST_SHARE_MAX
from fairlead_wire.traces.settings import TracesSettings
from fairlead_wire.validation import listen_address, mistakes, route_manifest
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake, shown

STORE_BYTES_MIN: Final = 16 * 1024
OBJECTS_SHARE: Final = 4
"""Objects get this fraction (a quarter) of ``max_bytes``, messages the rest: neither can starve the other."""
REFUSED_SHARE_MAX: Final = 0.5
HUB_PORT: Final = 10000
"""Where a hub listens by default."""

_KEY_PLACE = re.compile(r"/[^\0\n]+|credential:[A-Za-z0-9._-]{1,255}")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be kept on disk."""

    max_bytes: Annotated[int, Meta(ge=STORE_BYTES_MIN)] = 1024 * 1024 * 1024
    """Objects may take a quarter of it, messages the rest; logs of up to 16 MiB a file come on top."""
    default_ttl_seconds: Annotated[int, Meta(ge=-1, le=route_manifest.TTL_SECONDS_MAX)] = 7200
    """How long a message is kept of which neither its route nor its EdgeRoutes object says; 0: 7200, -1: for ever. It
    counts for messages that wait, too. Also called `storeAndForwardConfiguration` `timeToLiveSecs`."""
    evict: Literal["never", "less-urgent"] = "never"
    """A full store answers 507 (`never`), or drops the oldest messages of less urgent queues for a more urgent one,
    counted as evicted (`less-urgent`)."""

    refused_share: Annotated[float, Meta(ge=0, le=REFUSED_SHARE_MAX)] = REFUSED_INPUT_DEFAULT.share
    """The part of the room for messages that dead letters of refused input may take: what MQTT 3.1.1 clients sent and
    no entrance could accept. Beyond it, beyond 1,000 of them, and where an accepted message needs the room, the oldest
    are evicted and counted; 0: none are kept. Dead letters of accepted messages are never evicted."""
    refused_seconds: Annotated[int, Meta(ge=0, le=route_manifest.TTL_SECONDS_MAX)] = int(REFUSED_INPUT_DEFAULT.seconds)
    """How long dead letters of refused input are kept; 0: for ever, as far as the share allows."""

    encryption_key: str | None = None
    """Encrypts the stores: a file with a key of 32 bytes (as they are, in hex or in base 64), or `credential:NAME`, a
    credential that systemd gives the agent. Without it the stores are plain."""
    encrypt: Literal["secrets", "all", "none"] | None = None
    """What is encrypted with `encryption_key`: the file of objects, where Secrets are (`secrets`, the default when a
    key is given), the messages, too (`all`), or nothing (`none`: what was encrypted is decrypted at the next start)."""
    previous_encryption_key: str | None = None
    """The key that was used until now, for one start with another `encryption_key`: the stores are encrypted anew."""

    @property
    def object_bytes(self) -> int:
        return self.max_bytes // OBJECTS_SHARE

    @property
    def refused_input(self) -> RefusedInputPolicy:
        return RefusedInputPolicy(share=self.refused_share, seconds=self.refused_seconds)

    @property
    def message_bytes(self) -> int:
        return self.max_bytes - self.object_bytes


class EdgeCleanup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When what has expired is removed."""

    interval_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """How often what has expired is removed."""
    check_entire_queue_on_cleanup: bool = False
    """Whether expired messages behind living ones are removed too, not only those at the front of a queue. Also called
    `checkEntireQueueOnCleanup`, here, at the top of the file and in the environment."""


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The link to the hub."""

    attempt_seconds_max: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    """Longest pause between two attempts to reach the hub; jittered; a hub that asks for more gets it."""
    stale_hub_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """How long a hub that holds the Lease is refused because this node has obeyed a hub with a higher fencing number.
    Then the higher number is given up: the Lease was lost or restored, or the number was never true."""
    bytes_per_second: Annotated[int, Meta(ge=0, le=LINK_BYTES_MAX)] = 0
    """Messages leave at this rate at most, counted as packed; 0: no limit. Acknowledgements, objects and the session
    itself are not held back by it."""
    bytes_per_day: Annotated[int, Meta(ge=0, le=LINK_BYTES_MAX)] = 0
    """What the link may carry a day, both ways, every packet counted; 0: no limit. At nine tenths of it messages wait
    for the next day, those of priority 0 at all of it; the session goes on, and alone takes
    about 2.5 MB a day."""
    timezone: str = "UTC"
    """Where the day of `bytes_per_day` begins at midnight: a name such as `Europe/Berlin`."""

    def __post_init__(self) -> None:
        mistakes.refuse(zone_mistakes("timezone", self.timezone))


class PumpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who goes first where messages of several priorities wait."""

    floor_share: Annotated[float, Meta(ge=0, le=FLOOR_SHARE_MAX)] = 0.0
    """The part of the line that each less urgent priority gets while more urgent ones wait; 0: none, strictly the most
    urgent first. Where more wait than there are parts, they share equally."""
    live_first_share: Annotated[float, Meta(ge=0, le=LIVE_FIRST_SHARE_MAX)] = 0.0
    """While messages of a priority have waited for more than 10 s, what is accepted then gets this part of what the
    line gives to the priority; 0: all goes in the order of acceptance. With it a priority is two streams, each in
    order."""


class ModulesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs on this node that have names of their own."""

    tokens_file: FilePath | None = None
    """Lines of a module's name and the SHA-256 of its token, made by `fairlead edge module-token`; read again when it
    changes. Then a module's name belongs to its token: no other program publishes as it or takes its messages."""


class UpstreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages on their way to the hub."""

    delivery: UpstreamDelivery = UPSTREAM_POLICY
    """When a batch that the hub could not take goes again: a delivery policy. A lost link costs no retry."""


class BrokeredSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages for modules on this node."""

    delivery: BrokeredDelivery = BROKERED_POLICY
    """When a message is given out again that its module abandoned or did not acknowledge in time: a delivery policy.
    When it allows no more the message is a dead letter."""


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    node: str
    """Name of the Kubernetes Node this agent is; the certificate carries the same name."""
    hub_url: str
    """`wss://host:port`, the port always; `ws://` with `security = "insecure"` only."""
    data_dir: FilePath
    """Folder for stores, token and lock; one agent at a time."""
    http_listen: str = "127.0.0.1:10550"
    """The local API; plain HTTP on loopback only, and `insecure` needs a loopback address."""
    health_listen: str | None = None
    """`/healthz`, `/readyz`, `/metrics` in plain HTTP on an address of their own; they are on `http_listen`, too."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS; `http_listen` must be a loopback address."""
    tls_ca: FilePath | None = None
    """Authority of the hub; required with `mtls`, as the two below. Read again when the file changes."""
    tls_cert: FilePath | None = None
    """The node's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lines below this level are not written."""
    store: StoreSettings = StoreSettings()
    cleanup: EdgeCleanup = EdgeCleanup()
    link: LinkSettings = LinkSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    brokered: BrokeredSettings = BrokeredSettings()
    pump: PumpSettings = PumpSettings()
    windows: list[WindowSettings] = []
    """Hours in which messages of some priorities may leave."""
    modules: ModulesSettings = ModulesSettings()
    mqtt: MqttSettings = MqttSettings()
    traces: TracesSettings = TracesSettings()

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {
        "checkEntireQueueOnCleanup": "cleanup.check_entire_queue_on_cleanup",
        "storeAndForwardConfiguration.timeToLiveSecs": "store.default_ttl_seconds",
    }
    """What Azure IoT Edge calls the same settings."""

    def __post_init__(self) -> None:
        mistakes.refuse(self._wrong())

    def _wrong(self) -> Iterator[Mistake]:
        store = self.store
        if store.encryption_key is None:
            if store.encrypt in ("secrets", "all"):
                yield Mistake("store.encryption_key", f'required with encrypt = "{store.encrypt}"')
            if store.previous_encryption_key is not None:
                yield Mistake("store.encryption_key", "required with previous_encryption_key")
        for key in ("encryption_key", "previous_encryption_key"):
            value = getattr(store, key)
            if value is not None and not _KEY_PLACE.fullmatch(value):
                # It may be the key itself, so it is not shown.
                yield Mistake(f"store.{key}", "must be the absolute path of a file, or credential:NAME")
        if not _NODE.fullmatch(self.node):
            yield Mistake("node", f"must be the name of a Kubernetes Node, is {shown(self.node)}")
        if not self.data_dir:
            yield Mistake("data_dir", "must be a folder")
        for key in ("http_listen", "health_listen"):
            if (value := getattr(self, key)) is not None:
                yield from listen_address.find(key, value)
        yield from self._hub_url_wrong()
        other_tokens = self.modules.tokens_file is not None
        yield from find_mistakes(self.mqtt, insecure=self.security == "insecure", other_tokens=other_tokens)
        if self.security == "mtls":
            for key in ("tls_ca", "tls_cert", "tls_key"):
                if not getattr(self, key):
                    yield Mistake(key, 'required with security = "mtls"')
        elif not listen_address.find("http_listen", self.http_listen) and not self.plain_http:
            yield Mistake("http_listen", 'must be a loopback address with security = "insecure"')

    def _hub_url_wrong(self) -> Iterator[Mistake]:
        try:
            url = urlsplit(self.hub_url)
            port = url.port
        except ValueError:
            yield Mistake("hub_url", f"must be wss://host:port, is {shown(self.hub_url)}")
            return
        if url.scheme not in ("ws", "wss") or not url.hostname:
            yield Mistake("hub_url", f"must be wss://host:port, is {shown(self.hub_url)}")
        elif not port:
            # The scheme's own port is hardly ever meant, and its symptom is a link that does not come up.
            yield Mistake("hub_url", f"must name the port, for example {url.scheme}://{url.hostname}:{HUB_PORT}")
        elif url.scheme == "ws" and self.security != "insecure":
            yield Mistake("hub_url", 'ws:// only with security = "insecure"')
        elif url.scheme == "wss" and self.security == "insecure":
            yield Mistake("hub_url", 'wss:// needs security = "mtls", with tls_ca, tls_cert and tls_key')

    @property
    def plain_http(self) -> bool:
        """The local API answers plain HTTP on loopback only; elsewhere TLS alone, with ``tls_cert``."""
        return listen_address.is_loopback(listen_address.parse(self.http_listen)[0])
