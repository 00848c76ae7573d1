"""Edge, hub and messaging are killed with -9 at random while a producer publishes; the topic is read afterwards.

Laws: every message that was answered 200 is in the topic once, and (node, epoch, stream, sequence) never repeats;
within (node, epoch, stream) sequences increase; the edge counts as sent exactly what the topic holds.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.faults.collect import Count
from tests.faults.fault_upstream import Producer
from tests.support.processes import wait_until
from tests.support.whole_line import WholeLine

ROOM = "upstream"
KILLS = 30
SECONDS_BETWEEN = (0.2, 1.5)
DRAIN_SECONDS = 240.0


class Victim(Protocol):
    """A program that may be killed and started again."""

    def kill(self) -> object: ...
    def start(self) -> object: ...


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times, drain, read the topic."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder, WholeLine(Path(folder)) as line:
        producer = Producer(line.edge, Random(seed), short=False)
        producer.thread.start()
        victims: dict[str, Victim] = {"edge": line.edge, "hub": line.hub, "messaging": line.messaging}
        killed: Counter[str] = Counter()
        for kill in range(kills):
            time.sleep(random.uniform(*SECONDS_BETWEEN))
            name = random.choice(sorted(victims))
            victims[name].kill()
            time.sleep(random.choice([0.0, 0.5]))  # the others have to live without it for a while
            victims[name].start()
            killed[name] += 1
            if (kill + 1) % 10 == 0:
                progress(f"  {kill + 1} kills {dict(killed)}, {len(producer.answered)} answered")
        producer.finish()
        wait_until("the outbox drains", line.edge.drained, seconds=DRAIN_SECONDS)
        return _count(kills, line, producer)


def _count(kills: int, line: WholeLine, producer: Producer) -> Count:
    topic = [each for each in line.in_topic() if isinstance(each["body"], dict)]
    numbers = Counter(each["body"]["n"] for each in topic)
    names = Counter((each["node"], each["epoch"], each["stream"], each["sequence"]) for each in topic)
    sent = sum(queue["sent"] for queue in line.edge.status()["queues"])
    return Count(
        kills=kills,
        acknowledged=len(producer.answered),
        lost=len(producer.answered - set(numbers)),
        duplicated=sum(count - 1 for count in numbers.values()) + sum(count - 1 for count in names.values()),
        untrue=abs(sent - len(topic)) + _disordered(topic),
    )


def _disordered(topic: list[dict[str, Any]]) -> int:
    """How many come after a later one of their stream."""
    reached: dict[tuple[str, int, str], int] = {}
    count = 0
    for each in topic:
        line = (each["node"], each["epoch"], each["stream"])
        count += each["sequence"] < reached.get(line, -1)
        reached[line] = max(each["sequence"], reached.get(line, -1))
    return count
