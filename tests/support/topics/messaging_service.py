"""A real messaging service for tests of programs that read and write topics, and messages for it.

with MessagingService(folder) as service:  service.create("default/telemetry");  service.publish(…)
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.support.joining.pki import Authority
from tests.support.processes import Running, free_ports, start, wait_until

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import Permanent, Temporary

UP_SECONDS = 100.0
BATCH = 1000


class MessagingService:
    """The program on its own port; `kill` and `start` it as often as you like, the port stays the same."""

    def __init__(
        self,
        folder: Path,
        *,
        store: str = "rocksdb",
        authority: Authority | None = None,
        cleanup_seconds: float = 3600.0,
        more: str = "",
    ) -> None:
        """``more``: further settings, in TOML."""
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(1)[0]
        self.url = f"http{'s' if authority else ''}://127.0.0.1:{self.port}"
        security, self.tls, self._access = 'security = "insecure"\n', None, ""
        if authority is not None:
            server = authority.issue("messaging", hosts=("127.0.0.1",))
            client = authority.issue("ingest")
            self.tls = Tls(ca=str(authority.certificate), cert=str(client.certificate), key=str(client.key))
            security = (
                f'security = "mtls"\ntls_ca = "{authority.certificate}"\n'
                f'tls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
            )
            verbs = '["publish", "consume", "administer"]'
            self._access = f'[[access]]\nsubject = "ingest"\nverbs = {verbs}\ntopics = ["*"]\n'
        self._log = folder / "messaging.log"
        self._config = folder / "messaging.toml"
        self._settings = (
            f'http_listen = "127.0.0.1:{self.port}"\ndata_dir = "{folder}/data"\n{security}'
            f'store = "{store}"\n[cleanup]\ninterval_seconds = {cleanup_seconds}\n'
        )
        self.set(more)
        self._client = Client(self.url, tls=self.tls, timeout_seconds=60.0)
        self._running: Running | None = None

    def set(self, more: str) -> None:
        """Set further settings for the next start; the test's client may do everything unless they set the access."""
        self._config.write_text(self._settings + ("" if "[[access]]" in more else self._access) + more)

    def start(self) -> MessagingService:
        """Start it and wait until it answers."""
        command = [sys.executable, "-m", "fairlead_cli.main", "messaging", "run", "--config", str(self._config)]
        self._running = running = start("messaging", command, self._log)
        wait_until("messaging is up", self._is_up, seconds=UP_SECONDS, describe=running.tail)
        return self

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._running is not None
        return self._running.pid

    def kill(self) -> None:
        """kill -9."""
        assert self._running is not None
        self._running.kill()
        self._client.close()

    def stop(self) -> None:
        """SIGTERM, wait."""
        if self._running is not None:
            self._running.stop()
        self._client.close()

    def __enter__(self) -> MessagingService:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def create(self, topic: str, **properties: Any) -> None:
        """Make a topic, which must not exist."""
        assert self._client.create_topic(*_names(topic), properties), f"{topic} exists"

    def configure(self, topic: str, **properties: Any) -> None:
        """Change a topic's properties."""
        self._client.update_topic(*_names(topic), properties)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._client.delete_topic(*_names(topic))

    def publish(self, topic: str, payloads: Sequence[bytes], ttl: int | None = None) -> None:
        """Store payloads in order; returns when they are durable."""
        for first in range(0, len(payloads), BATCH):
            self._client.publish(*_names(topic), payloads[first : first + BATCH], ttl_seconds=ttl)

    def publish_patiently(self, topic: str, payloads: Sequence[bytes], producer: str, first: int) -> None:
        """Publish as an edge does: one producer, numbered from `first`, retried until each message is stored once."""

        def stored() -> bool:
            try:
                self._client.publish(*_names(topic), payloads, producer=Producer(id=producer, epoch=1, sequence=first))
            except Temporary as error:
                raise AssertionError(str(error)) from error
            return True

        wait_until("the messages are stored", stored, seconds=120)

    def readers(self, topic: str) -> list[dict[str, Any]]:
        """The readers of the topic that the service knows."""
        return [msgspec.to_builtins(reader) for reader in self._client.readers(*_names(topic))]

    def visible(self, topic: str) -> int:
        """How many messages a reader would get now."""
        return sum(each.state == "visible" for each in self._client.inspect(*_names(topic), limit=1000))

    def payloads(self, topic: str) -> list[bytes]:
        """Everything that a reader would get now, in order."""
        return [each.payload for each in self._client.messages(*_names(topic))]

    def _is_up(self) -> bool:
        try:
            self._client.topics("default")
        except (Temporary, Permanent) as error:
            raise AssertionError(str(error)) from error
        return True


def _names(topic: str) -> tuple[str, str]:
    namespace, name = topic.split("/")
    return namespace, name


def upstream_message(number: int, *, node: str = "edge-1", **changes: Any) -> bytes:
    """A payload as the hub writes it."""
    message = {
        "id": f"{node}-{number}",
        "node": node,
        "epoch": 4503599627370497,
        "stream": "iothub",
        "sequence": number,
        "source": "/messages/modules/meter/outputs/values",
        "priority": number % 2,
        "enqueued_at": datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z"),
        "properties": {"unit": "C"},
        "systemProperties": {"contentType": "application/json", "contentEncoding": "utf-8"},
        "body": {"temperature": number / 10, "tags": ["a", "b"]},
    }
    return json.dumps({**message, **changes}).encode()
