"""The edge is killed with -9 and its link cut at random while a producer publishes; everything is counted afterwards.

The producer repeats an unanswered request under the same Idempotency-Key.  Laws: what was answered 200 reaches the hub,
no body arrives under two names, and the agent's totals add up exactly.
"""

from __future__ import annotations

import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from tests.faults.collect import Count
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.processes import wait_until

ROOM = "upstream"
KILLS = 60
BATCH_MAX = 40
SECONDS_BETWEEN = (0.05, 0.6)
DRAIN_SECONDS = 120.0


class Producer:
    """Publishes numbered messages until it is stopped; knows which were answered."""

    def __init__(self, edge: EdgeProgram, random: Random, *, short: bool = True) -> None:
        self._edge = edge
        self._priorities: list[int | str] = [0, 1, 5, 9, "none", *(["short"] if short else [])]
        self._random = random
        self._stop = threading.Event()
        self.answered: set[int] = set()
        self.short: set[int] = set()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def finish(self) -> None:
        self._stop.set()
        self.thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            numbers = range(number, number + self._random.randint(1, BATCH_MAX))
            number = numbers.stop
            priorities = {each: self._random.choice(self._priorities) for each in numbers}
            self._publish([telemetry(priorities[each], {"n": each}) for each in numbers], f"batch-{numbers.start}")
            self.answered.update(numbers)
            self.short.update(each for each in numbers if priorities[each] == "short")

    def _publish(self, messages: list[dict[str, Any]], key: str) -> None:
        while True:
            try:
                self._edge.publish(messages, key=key)
                return
            except (OSError, ValueError) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code not in (503, 507):
                    raise
                time.sleep(0.02)  # the agent is being killed or started


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times, drain, count."""
    random = Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        CountingHub() as hub,
        EdgeProgram(Path(folder), hub.port) as edge,
    ):
        edge.await_routes()
        producer = Producer(edge, Random(seed))
        producer.thread.start()
        for kill in range(kills):
            time.sleep(random.uniform(*SECONDS_BETWEEN))
            if random.random() < 0.5:
                hub.cut()
            edge.kill()
            edge.start()
            hub.mend()
            if (kill + 1) % 10 == 0:
                progress(f"  {kill + 1} kills, {len(producer.answered)} answered, {len(hub.stored)} at the hub")
        producer.finish()
        return _count(kills, edge, hub, producer)


def _count(kills: int, edge: EdgeProgram, hub: CountingHub, producer: Producer) -> Count:
    wait_until("the outbox drains", edge.drained, seconds=DRAIN_SECONDS)
    arrived = Counter(msgspec.json.decode(each.body).get("n") for each in hub.messages() if each.body != b"0")
    queues = edge.status()["queues"]
    total = Counter[str]()
    for queue in queues:
        total.update({key: queue[key] for key in ("accepted", "sent", "expired", "evicted", "deadLettered")})
    ended = total["sent"] + total["expired"] + total["evicted"] + total["deadLettered"]
    missing = producer.answered - set(arrived)
    expired_unsent = len(missing & producer.short)
    # The hub accepted it, the edge was killed before it recorded the answer, and then its time to live ended: the edge
    # can only count it as expired. The two counts may differ by no other messages.
    taken_unnoted = total["expired"] - expired_unsent
    return Count(
        kills=kills,
        acknowledged=len(producer.answered),
        lost=len(missing - producer.short) + max(0, -taken_unnoted),
        duplicated=sum(count - 1 for count in arrived.values()),
        untrue=abs(total["accepted"] - ended) + abs(len(hub.stored) - total["sent"] - taken_unnoted),
    )
