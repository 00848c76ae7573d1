"""The ``[mqtt]`` part of the agent's settings, checked with what it depends on (``security``, tokens of modules)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_wire.validation import listen_address
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake

PACKET_BYTES_MIN: Final = 1024
PACKET_BYTES_MAX: Final = 1024 * 1024
CONNECTIONS_MAX: Final = 10_000


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """MQTT 3.1.1 and 5 for programs and devices on this node."""

    listen: str | None = None
    """`host:port` where MQTT is spoken, for example `0.0.0.0:8883`; without it there is no MQTT. TLS always, but with
    `security = "insecure"` and a loopback address: `127.0.0.1:1883`."""
    tls_cert: FilePath | None = None
    """Certificate MQTT clients see; without it the agent's `tls_cert`. Read again when the file changes, as the two
    below."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    tls_ca: FilePath | None = None
    """Authority of client certificates; without it the agent's `tls_ca`. A certificate's name is the module or device
    that connects."""
    tokens_file: FilePath | None = None
    """Tokens of modules that connect without a certificate, shown as the password; a file as `modules.tokens_file`,
    which counts when this is not given."""
    other_topics: bool = False
    """Whether topics that are neither `fairlead/…` nor `devices/…` are taken: `a/b` has the source
    `/messages/mqtt/a/b`."""
    connections_max: Annotated[int, Meta(ge=1, le=CONNECTIONS_MAX)] = 512
    """Clients at once; one more closes the one that was silent for longest, of the module that has most."""
    packet_bytes_max: Annotated[int, Meta(ge=PACKET_BYTES_MIN, le=PACKET_BYTES_MAX)] = 258 * 1024
    """Size of a packet; a larger one ends its connection. A message may have 256 KiB."""

    @property
    def own_tls(self) -> bool:
        return self.tls_cert is not None or self.tls_key is not None


def find_mistakes(settings: MqttSettings, *, insecure: bool, other_tokens: bool) -> Iterator[Mistake]:
    """``other_tokens``: there is a ``modules.tokens_file``."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "tls_cert" if settings.tls_cert is None else "tls_key"
        yield Mistake(f"mqtt.{missing}", "required: certificate and key belong together")
    if settings.listen is None:
        return
    wrong = listen_address.find("mqtt.listen", settings.listen)
    yield from wrong
    if wrong or not insecure:
        return
    host, _ = listen_address.parse(settings.listen)
    if not settings.own_tls and not listen_address.is_loopback(host):
        yield Mistake("mqtt.listen", "must be a loopback address without TLS: give mqtt.tls_cert and mqtt.tls_key")
    if settings.own_tls and settings.tls_ca is None and settings.tokens_file is None and not other_tokens:
        yield Mistake("mqtt.tls_ca", "required, or mqtt.tokens_file: else it cannot be known who connects")
