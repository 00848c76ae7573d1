"""A producer that publishes while everything else happens, and knows what was stored."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Final

from tests.support.topics.messaging_service import upstream_message

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import Permanent, Temporary

TOPIC: Final = ("default", "telemetry")
PAGE: Final = 40
"""Messages of one request."""
PAUSE_SECONDS: Final = 0.2
WAIT_SECONDS: Final = 300.0


class Producing:
    """Numbered messages, one after the other, each stored once: repeated until they are, as an edge does."""

    def __init__(self, client: Client) -> None:
        self.ids: list[str] = []
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failed = ""

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def stop(self) -> list[str]:
        """The ids of all that is stored."""
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._failed and not self._thread.is_alive(), f"the producer stopped: {self._failed}"
        return self.ids

    def _run(self) -> None:
        for first in itertools.count(0, PAGE):
            numbers = range(first, first + PAGE)
            while True:
                try:
                    producer = Producer(id="story", epoch=1, sequence=first)
                    self._client.publish(*TOPIC, [upstream_message(number) for number in numbers], producer=producer)
                    break
                except Temporary:
                    time.sleep(PAUSE_SECONDS)
                except Permanent as error:
                    self._failed = str(error)
                    return
            self.ids += [f"edge-1-{number}" for number in numbers]
            if self._stop.wait(PAUSE_SECONDS):
                return
