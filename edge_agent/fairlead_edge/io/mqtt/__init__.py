"""The MQTT listener, for programs and devices on this node.

    Acceptor ──▶ Connection (one session) ──▶ Intake ──one append for all connections──▶ Publisher
                      │  ▲                                                                   │
                      │  └──────────────── PUBACKs, when it is on disk ──────────────────────┘
                      ├──▶ Clients      connected clients, kept sessions, wills
                      ├──▶ ResumeQueue  which connection is read next, after too much waited for the disk
                      └──▶ Deliveries   takes from the broker for subscribers, and acknowledges

Loaded only if ``[mqtt] listen`` is set, so that an agent without MQTT does not grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead_edge.io.module_tokens_file import ModuleTokensFile
    from fairlead_edge.io.mqtt.listener import MqttListener
    from fairlead_edge.io.outbox.upstream import UpstreamService
    from fairlead_edge.settings import EdgeSettings


def open_if_set(
    settings: EdgeSettings, upstream: UpstreamService, modules: ModuleTokensFile | None
) -> MqttListener | None:
    """The listener, if ``[mqtt] listen`` is set.  Raises ``TlsFilesError``, ``BadTokens``."""
    if settings.mqtt.listen is None:
        return None
    from fairlead_edge.io.mqtt import listener

    return listener.open_listener(settings, upstream, modules)
