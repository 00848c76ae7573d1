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
    """Address of the MQTT listener, for example `0.0.0.0:8883`; absent: no MQTT. It uses TLS, except with
    `security = "insecure"` and a loopback address such as `127.0.0.1:1883`."""
    tls_cert: FilePath | None = None
    """Certificate for MQTT clients; absent: the agent's `tls_cert`. Read again when the file changes, like the next
    two."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""
    tls_ca: FilePath | None = None
    """Authority of client certificates; absent: the agent's `tls_ca`. The name in a certificate is the module or
    device."""
    tokens_file: FilePath | None = None
    """Tokens of modules that connect without a certificate and send the token as the password; a file like
    `modules.tokens_file`, which is used if this is absent."""
    other_topics: bool = False
    """Whether to accept topics other than `fairlead/…` and `devices/…`: `a/b` has the source `/messages/mqtt/a/b`."""
    connections_max: Annotated[int, Meta(ge=1, le=CONNECTIONS_MAX)] = 512
    """Maximum number of clients; one more closes the client that was silent for longest, of the module with the most
    clients."""
    packet_bytes_max: Annotated[int, Meta(ge=PACKET_BYTES_MIN, le=PACKET_BYTES_MAX)] = 258 * 1024
    """Maximum packet size; a larger packet ends its connection. A message may have 256 KiB."""

    @property
    def own_tls(self) -> bool:
        return self.tls_cert is not None or self.tls_key is not None


def find_mistakes(settings: MqttSettings, *, insecure: bool, other_tokens: bool) -> Iterator[Mistake]:
    """Check the settings.  ``other_tokens``: whether there is a ``modules.tokens_file``."""
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
        yield Mistake("mqtt.tls_ca", "required unless mqtt.tokens_file is given, to identify clients")
