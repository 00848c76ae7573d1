"""Modules and the agent are killed with -9 at random while modules get messages; then everything is counted.

Modules are processes that lease a few messages for a second, record each one, and acknowledge most of them.  Every
fiftieth message is poison: it is always abandoned.  Laws: what was answered 200 reaches a module at least once; poison
becomes a dead letter after as many attempts as the delivery policy allows; the rest is acknowledged, or a dead letter
if
modules died with it as often; and the agent's totals add up exactly.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.collect import Count
from tests.faults.fault_upstream import Producer
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.processes import Running, start, wait_until

ROOM = "upstream"
KILLS = 60
MODULES = 3
SECONDS_BETWEEN = (0.05, 0.6)
DRAIN_SECONDS = 180.0
POISON = 50
RETRIES = 2
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {
        **{
            f"p{priority}": {
                "route": f"FROM /messages/modules/* WHERE p = '{priority}'"
                ' INTO BrokeredEndpoint("/modules/filter/inputs/in")',
                "priority": priority,
            }
            for priority in (0, 1, 5, 9)
        },
        "rest": "FROM /messages/modules/* WHERE p = 'none' INTO BrokeredEndpoint(\"/modules/filter/inputs/in\")",
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}
POLICY = f"""[brokered.delivery]
retries_with_no_delay = 1
minimum_delay = 0.2
maximum_delay = 0.5
backoff_retries = {RETRIES - 1}
maximum_delay_retries = 0
"""
MODULE = f"""
import sys
from fairlead_edge.io.client import EdgeClient
from fairlead_wire.errors import FairleadError

edge = EdgeClient(sys.argv[1])
while True:
    try:
        for message in edge.take("filter", "in", messages_max=7, wait_seconds=5, lease_seconds=1):
            print(message.body["n"], message.attempt, message.priority, flush=True)
            if message.body["n"] % {POISON} == {POISON - 1}:
                edge.abandon("filter", "in", [message.id])
            else:
                edge.ack("filter", "in", [message.id])
    except FairleadError:
        pass
"""


class Modules:
    """The processes, and what they recorded."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._started = 0
        self.running: list[Running] = []

    def start(self) -> None:
        self._started += 1
        log = self._folder / f"module-{self._started}.log"
        self.running.append(start("module", [sys.executable, "-c", MODULE, self._url], log))

    def kill(self, random: Random) -> None:
        """Kill one of them with the messages it has leased; another one takes its place."""
        self.running.pop(random.randrange(len(self.running))).kill()
        self.start()

    def end(self) -> None:
        for each in self.running:
            each.kill()

    def got(self) -> list[int]:
        """The number of each message, as often as a module got it, without an incomplete last line."""
        lines = [line.split() for log in self._folder.glob("module-*.log") for line in log.read_text().splitlines()]
        return [int(line[0]) for line in lines if len(line) == 3]


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times, a module or the agent; drain, count."""
    random = Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        CountingHub(routes=ROUTES) as hub,
        EdgeProgram(Path(folder), hub.port, settings=POLICY) as edge,
    ):
        edge.await_routes()
        modules = Modules(Path(folder), edge.url)
        try:
            for _ in range(MODULES):
                modules.start()
            producer = Producer(edge, Random(seed), short=False)
            producer.thread.start()
            for kill in range(kills):
                time.sleep(random.uniform(*SECONDS_BETWEEN))
                if random.random() < 0.5:
                    modules.kill(random)
                else:
                    edge.start_again()
                if (kill + 1) % 10 == 0:
                    progress(f"  {kill + 1} kills, {len(producer.answered)} answered, {len(modules.got())} deliveries")
            modules.kill(random)  # last, so that a lease must end before everything is drained
            producer.finish()
            began = time.monotonic()
            wait_until("the modules' queues drain", edge.drained, seconds=DRAIN_SECONDS, describe=_described(edge))
            progress(f"  drained {time.monotonic() - began:.1f} s after the last kill")
            return _count(kills, edge, modules, producer)
        finally:
            modules.end()


def _described(edge: EdgeProgram) -> Callable[[], str]:
    return lambda: json.dumps(edge.status()["queues"])


def _count(kills: int, edge: EdgeProgram, modules: Modules, producer: Producer) -> Count:
    got = Counter(modules.got())
    poison = {number for number in producer.answered if number % POISON == POISON - 1}
    letters = _dead_letters(edge)
    buried = Counter(letter["message"]["body"]["n"] for letter in letters)
    total = Counter[str]()
    for queue in edge.status()["queues"]:
        total.update({key: queue[key] for key in ("accepted", "sent", "expired", "evicted", "deadLettered", "leased")})
    ended = total["sent"] + total["expired"] + total["evicted"] + total["deadLettered"]
    # A module that is killed between getting a message and recording it costs the message an attempt.
    untrue_letters = sum(f"delivered {1 + RETRIES} times" not in letter["reason"] for letter in letters)
    return Count(
        kills=kills,
        acknowledged=len(producer.answered),
        lost=len(producer.answered - set(got) - set(buried)) + len(poison - set(buried)),
        duplicated=sum(count - 1 for count in buried.values()),
        untrue=abs(total["accepted"] - ended) + total["leased"] + total["expired"] + untrue_letters,
    )


def _dead_letters(edge: EdgeProgram) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = json.loads(edge.get(f"/v1/deadletters?after={after}&limit=1000"))
        found += page["deadLetters"]
        after = page["next"]
    return found
