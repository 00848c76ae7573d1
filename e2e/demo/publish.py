"""Publishers: one thread for each node, which replays its part of the series and records what was accepted.

A batch whose answer was lost is sent again under the same idempotency key until the edge answers, as an application
would: kill -9 of the agent in between loses and duplicates nothing.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence

from e2e.demo.count import Accepted, Ledger
from e2e.demo.edge import Edge, Refused
from e2e.demo.replay import Publication

BATCH = 20
PACE_SECONDS = 0.12
"""Between two batches: about 160 messages a second and node, so that things happen while others go on."""
RETRY_SECONDS = 0.2
GIVE_UP_SECONDS = 240.0


class NotAccepted(AssertionError):
    """The edge responded, but did not accept a message as its routes require."""


class Publisher:
    """Replays `part` to one edge; `wait()` raises the error, if any."""

    def __init__(self, edge: Edge, part: Sequence[Publication], ledger: Ledger) -> None:
        self.edge = edge
        self.total = len(part)
        self.accepted = 0
        self.retries = 0
        self.error: Exception | None = None
        self._part = part
        self._ledger = ledger
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"publisher-{edge.name}", daemon=True)

    def start(self) -> Publisher:
        """Start the thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Abandon the rest, after the run failed elsewhere."""
        self._stopped.set()

    @property
    def done(self) -> bool:
        """True when everything is accepted; raises what stopped it."""
        if self.error is not None:
            raise RuntimeError(f"replaying to {self.edge.name} stopped: {self.error}") from self.error
        return self.accepted == self.total

    def _run(self) -> None:
        try:
            for start in range(0, self.total, BATCH):
                self._publish(self._part[start : start + BATCH])
                if self._stopped.wait(PACE_SECONDS):
                    return
        except Exception as error:  # noqa: BLE001 - reported in the main thread by `done`
            self.error = error

    def _publish(self, batch: Sequence[Publication]) -> None:
        key = str(uuid.uuid4())
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                results = self.edge.publish([each.message for each in batch], key)
                break
            except (OSError, Refused) as error:
                if isinstance(error, Refused) and not error.temporary:
                    raise
                if self._stopped.is_set() or time.monotonic() > deadline:
                    raise
                self.retries += 1
                self._stopped.wait(RETRY_SECONDS)
        now = time.time()
        for publication, result in zip(batch, results, strict=True):
            deliveries = result.get("deliveries", [])
            if [each["priority"] for each in deliveries] != [publication.priority]:
                raise NotAccepted(f"expected one delivery of priority {publication.priority}, got {result}")
            self._ledger.note(Accepted(id=result["id"], node=self.edge.name, priority=publication.priority, at=now))
        self.accepted += len(batch)
