"""The agent is killed with -9 at random while MQTT clients publish with windows; then all is counted.

Each client numbers its messages, keeps up to ``WINDOW`` unacknowledged, and after a lost connection sends those again
with DUP, as QoS 1 requires.  Laws: what was acknowledged is upstream; a message is upstream at most once more than it
was sent again; when the clients are done, each of their messages is there.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
from tests.faults.collect import Count
from tests.support.edges import mqtt_packets as client
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.edges.mqtt_packets import RawClient
from tests.support.processes import free_ports, wait_until

ROOM = "upstream"
KILLS = 40
CLIENTS = 3
WINDOW = 32
SECONDS_BETWEEN = (0.05, 0.6)
DRAIN_SECONDS = 180.0
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {"up": "FROM /messages/* INTO $upstream"},
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}


class Publisher:
    """One client, in a thread.  ``level`` is 4 (3.1.1) or 5."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._number, self._level = port, number, 4 + number % 2
        self.acknowledged: set[int] = set()
        self.sent: Counter[int] = Counter()
        self._waiting: dict[int, int] = {}
        self._next = 0
        self._ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def finish(self) -> None:
        """Publish nothing new; repeat what was sent until it is acknowledged."""
        self._ending.set()
        self.thread.join(DRAIN_SECONDS)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        while not (self._ending.is_set() and not self._waiting):
            try:
                self._talk(RawClient(self._port, seconds=30.0))
            except OSError:
                time.sleep(0.02)

    def _talk(self, peer: RawClient) -> None:
        try:
            peer.send(client.connect(f"device-{self._number}", level=self._level))
            answer = peer.read()
            if answer is None or answer.body[1]:
                raise ConnectionError
            for packet in list(self._waiting):
                self._send(peer, packet, dup=True)
            while True:
                while len(self._waiting) < WINDOW and not self._ending.is_set():
                    packet = self._next % 65_535 + 1
                    self._waiting[packet] = self._next
                    self._next += 1
                    self._send(peer, packet, dup=False)
                if not self._waiting:
                    peer.send(client.BYE)
                    return
                answer = peer.read()
                if answer is None:
                    raise ConnectionError
                assert answer.kind == client.PUBACK, answer
                self.acknowledged.add(self._waiting.pop(answer.id))
        finally:
            peer.close()

    def _send(self, peer: RawClient, packet: int, *, dup: bool) -> None:
        number = self._waiting[packet]
        self.sent[number] += 1
        body = b'{"c":%d,"n":%d}' % (self._number, number)
        peer.send(client.publish(f"fairlead/device-{self._number}/out", body, level=self._level, id=packet, dup=dup))


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times; let the clients finish, drain, count."""
    random = Random(seed)
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"'
    with (
        tempfile.TemporaryDirectory() as folder,
        CountingHub(routes=ROUTES) as hub,
        EdgeProgram(Path(folder), hub.port, settings=settings) as edge,
    ):
        edge.await_routes()
        publishers = [Publisher(port, number) for number in range(CLIENTS)]
        for each in publishers:
            each.thread.start()
        for kill in range(kills):
            time.sleep(random.uniform(*SECONDS_BETWEEN))
            edge.start_again()
            if (kill + 1) % 10 == 0:
                progress(f"  {kill + 1} kills, {sum(len(each.acknowledged) for each in publishers)} acknowledged")
        for each in publishers:
            each.finish()
        wait_until("all is upstream", edge.drained, seconds=DRAIN_SECONDS)
        return _count(kills, hub, publishers)


def _count(kills: int, hub: CountingHub, publishers: list[Publisher]) -> Count:
    found = Counter[tuple[int, int]]()
    for each in hub.messages():
        body = msgspec.json.decode(bytes(each.body)) if isinstance(each.body, msgspec.Raw) else None
        if isinstance(body, dict):
            found[body["c"], body["n"]] += 1
    wanted = {(number, n) for number, each in enumerate(publishers) for n in each.acknowledged}
    sent = {(number, n): count for number, each in enumerate(publishers) for n, count in each.sent.items()}
    return Count(
        kills=kills,
        acknowledged=len(wanted),
        lost=len(wanted - set(found)),
        duplicated=sum(count > sent.get(key, 0) for key, count in found.items()),
        untrue=sum(key not in sent for key in found) + len(sent.keys() - wanted),
    )
