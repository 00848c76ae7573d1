"""The settings of an edge agent, from its file or ``FAIRLEAD_EDGE_*`` variables, with their checks.

The text below a key is its description on the reference page.  Times are in seconds, sizes in bytes.
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
"""Objects get a quarter of ``max_bytes`` and messages the rest, so that neither can starve the other."""
REFUSED_SHARE_MAX: Final = 0.5
HUB_PORT: Final = 10000
"""The default port of a hub."""

_KEY_PLACE = re.compile(r"/[^\0\n]+|credential:[A-Za-z0-9._-]{1,255}")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what is kept on disk."""

    max_bytes: Annotated[int, Meta(ge=STORE_BYTES_MIN)] = 1024 * 1024 * 1024
    """Space for the stores: a quarter for objects, the rest for messages. Logs of up to 16 MiB per file come on top."""
    default_ttl_seconds: Annotated[int, Meta(ge=-1, le=route_manifest.TTL_SECONDS_MAX)] = 7200
    """How long a message is kept if neither its route nor its EdgeRoutes object has a time to live; 0: 7200, -1:
    forever. Also applies to messages that are already waiting. Also called `storeAndForwardConfiguration`
    `timeToLiveSecs`."""
    evict: Literal["never", "less-urgent"] = "never"
    """`never`: a full store answers 507. `less-urgent`: it evicts the oldest messages of less urgent queues to make
    room for a more urgent one, and counts them."""

    refused_share: Annotated[float, Meta(ge=0, le=REFUSED_SHARE_MAX)] = REFUSED_INPUT_DEFAULT.share
    """Share of the space for messages that dead letters of refused input may use: messages of MQTT 3.1.1 clients that
    could never be accepted. Beyond it, beyond 1,000 of them, and when an accepted message needs the space, the oldest
    are evicted and counted; 0: none are kept. Dead letters of accepted messages are never evicted."""
    refused_seconds: Annotated[int, Meta(ge=0, le=route_manifest.TTL_SECONDS_MAX)] = int(REFUSED_INPUT_DEFAULT.seconds)
    """How long dead letters of refused input are kept; 0: forever, within the share."""

    encryption_key: str | None = None
    """Key that encrypts the stores: a file with 32 bytes (raw, hexadecimal or base64), or `credential:NAME`, a
    credential that systemd passes to the agent. Absent: the stores are not encrypted."""
    encrypt: Literal["secrets", "all", "none"] | None = None
    """What `encryption_key` encrypts: `secrets`, the default with a key: the file of objects, which contains Secrets;
    `all`: also messages; `none`: nothing, and encrypted stores are decrypted at the next start."""
    previous_encryption_key: str | None = None
    """The previous key, for one start with a new `encryption_key`: the stores are encrypted again with the new one."""

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
    """When expired messages are removed."""

    interval_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """How often expired messages are removed."""
    check_entire_queue_on_cleanup: bool = False
    """Whether to remove expired messages behind unexpired ones too, not only those at the front of a queue. Also called
    `checkEntireQueueOnCleanup`, here, at the top of the file and in the environment."""


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The link to the hub."""

    attempt_seconds_max: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    """Longest delay between two attempts to reach the hub, with jitter; a longer delay requested by the hub is
    respected."""
    stale_hub_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """How long a hub that holds the Lease is refused because this node has obeyed a hub with a higher fencing number.
    After that the node gives up the higher number: the Lease was lost or restored, or the number was never genuine."""
    bytes_per_second: Annotated[int, Meta(ge=0, le=LINK_BYTES_MAX)] = 0
    """Maximum rate at which messages are sent, in compressed bytes; 0: no limit. Does not hold back acknowledgements,
    objects and the session itself."""
    bytes_per_day: Annotated[int, Meta(ge=0, le=LINK_BYTES_MAX)] = 0
    """Maximum bytes on the link a day, both ways, counting every packet; 0: no limit. At nine tenths of it messages
    wait for the next day, those of priority 0 at the full amount; the session continues, and alone uses about 2.5 MB a
    day."""
    timezone: str = "UTC"
    """Time zone of the midnight at which a day of `bytes_per_day` begins, such as `Europe/Berlin`."""

    def __post_init__(self) -> None:
        mistakes.refuse(zone_mistakes("timezone", self.timezone))


class PumpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which priority is sent first if messages of several priorities wait."""

    floor_share: Annotated[float, Meta(ge=0, le=FLOOR_SHARE_MAX)] = 0.0
    """Share of the line that each less urgent priority gets while more urgent ones wait; 0: none, strictly the most
    urgent first. If the shares exceed the total, all share equally."""
    live_first_share: Annotated[float, Meta(ge=0, le=LIVE_FIRST_SHARE_MAX)] = 0.0
    """While messages of a priority have waited for more than 10 s, newly accepted ones get this share of the priority's
    part of the line; 0: all messages are sent in the order of acceptance. Otherwise a priority is two streams, each in
    order."""


class ModulesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs on this node that have their own names."""

    tokens_file: FilePath | None = None
    """File with module names and the SHA-256 of their tokens, one per line, created by `fairlead edge module-token`;
    read again when it changes. If set, a module's name belongs to its token: no other program can publish under it or
    receive its messages."""


class UpstreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages for the hub."""

    delivery: UpstreamDelivery = UPSTREAM_POLICY
    """Delivery policy for batches that the hub could not accept. A lost link does not count as a retry."""


class BrokeredSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages for modules on this node."""

    delivery: BrokeredDelivery = BROKERED_POLICY
    """Delivery policy for messages that a module abandoned or did not acknowledge in time. After the last retry the
    message becomes a dead letter."""


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    node: str
    """Name of this agent's Kubernetes Node, which is also the name in its certificate."""
    hub_url: str
    """Address of the hub, `wss://host:port`, always with the port; `ws://` only with `security = "insecure"`."""
    data_dir: FilePath
    """Folder for stores, token and lock; only one agent may use it."""
    http_listen: str = "127.0.0.1:10550"
    """Address of the local API; plain HTTP only on loopback. `insecure` needs a loopback address."""
    health_listen: str | None = None
    """A separate address for `/healthz`, `/readyz` and `/metrics` in plain HTTP; they are on `http_listen`, too."""
    security: Literal["mtls", "insecure"] = "mtls"
    """`insecure`: no TLS; `http_listen` must be a loopback address."""
    tls_ca: FilePath | None = None
    """Authority of the hub; required with `mtls`, like the next two. Read again when the file changes."""
    tls_cert: FilePath | None = None
    """The node's certificate."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log lines."""
    store: StoreSettings = StoreSettings()
    cleanup: EdgeCleanup = EdgeCleanup()
    link: LinkSettings = LinkSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    brokered: BrokeredSettings = BrokeredSettings()
    pump: PumpSettings = PumpSettings()
    windows: list[WindowSettings] = []
    """Hours in which messages of some priorities may be sent."""
    modules: ModulesSettings = ModulesSettings()
    mqtt: MqttSettings = MqttSettings()
    traces: TracesSettings = TracesSettings()

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {
        "checkEntireQueueOnCleanup": "cleanup.check_entire_queue_on_cleanup",
        "storeAndForwardConfiguration.timeToLiveSecs": "store.default_ttl_seconds",
    }
    """The names of the same settings in Azure IoT Edge."""

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
                # The value may be the key itself, so do not quote it.
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
            # The scheme's default port is hardly ever right, and the link would just never come up.
            yield Mistake("hub_url", f"must name the port, for example {url.scheme}://{url.hostname}:{HUB_PORT}")
        elif url.scheme == "ws" and self.security != "insecure":
            yield Mistake("hub_url", 'ws:// only with security = "insecure"')
        elif url.scheme == "wss" and self.security == "insecure":
            yield Mistake("hub_url", 'wss:// needs security = "mtls", with tls_ca, tls_cert and tls_key')

    @property
    def plain_http(self) -> bool:
        """Whether the local API serves plain HTTP: only on loopback; elsewhere only TLS, with ``tls_cert``."""
        return listen_address.is_loopback(listen_address.parse(self.http_listen)[0])
