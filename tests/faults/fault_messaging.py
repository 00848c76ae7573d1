"""Messaging is killed with -9 at random while producers publish in every way a client has.

plain   without a producer; unanswered requests are not repeated
once    with a producer; unanswered requests are repeated
tx      in transactions by hand, some of them aborted
work    in units of work with a participant, whose changes must be kept exactly if the messages are
told    into a buffered publisher, which never waits and counts what it drops

Laws: what was acknowledged is in the topic, an idempotent producer's message is there once, a committed transaction is
there entirely and an aborted one not at all, and ids increase in reading order.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.faults.collect import Count
from tests.support.topics.messaging_program import MessagingProgram

from fairlead_messaging.api import requests
from fairlead_messaging.client.errors import InDoubt, TransactionOver
from fairlead_messaging.client.io.buffered_publisher import BufferedPublisher
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_messaging.client.io.transaction_context import TransactionContext
from fairlead_wire.errors import FairleadError, Permanent

ROOM = "messaging"
KILLS = 500
KINDS = ("plain", "once", "tx", "work", "told")
PRODUCERS_OF_EACH = 2
BATCH_MAX = 30
PAYLOAD_PAD = 200
WORK_BYTES = 2000
"""Of a unit of work's buffer: small units are published, larger ones stored on the way."""
TOLD_WAITING = 5000
FLUSH_SECONDS = 120.0
SECONDS_BETWEEN = (0.02, 0.4)
TOPIC = ("default", "faults")


class Kept:
    """A participant: what was persisted and not rolled back."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.persisted = False

    def changes(self) -> list[str]:
        return self._names[:1]

    def persist(self) -> None:
        self.persisted = True

    def rollback(self) -> None:
        self.persisted = False


class Producer:
    """Publishes numbered messages in one of these ways until told to stop; remembers what was answered."""

    def __init__(self, kind: str, number: int, url: str, seed: int) -> None:
        self.kind = kind
        self.name = f"{kind}{number}"
        self.acknowledged: set[str] = set()
        self.aborted: set[str] = set()
        self.error: BaseException | None = None
        self._random = Random(f"{seed}/{self.name}")
        self._client = Client(url, timeout_seconds=10)
        self._publisher = BufferedPublisher(self._client, *TOPIC) if kind == "told" else None
        self._told: set[str] = set()
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def finish(self) -> None:
        self._stop.set()
        self.thread.join()
        if self._publisher is not None:
            assert self._publisher.flush(FLUSH_SECONDS), "the service is up, and yet messages wait"
            self._publisher.close()
            assert self._publisher.published + self._publisher.dropped >= len(self._told)
            assert self._publisher.dropped == 0, "nothing was refused, and there was room"
            self.acknowledged.update(self._told)
        self._client.close()

    def _run(self) -> None:
        publish = {
            "plain": self._plain,
            "once": self._once,
            "tx": self._transaction,
            "work": self._work,
            "told": self._tell,
        }[self.kind]
        first = 0
        try:
            while not self._stop.is_set():
                count = self._random.randint(1, BATCH_MAX)
                publish(first, [f"{self.name}/{number}" for number in range(first, first + count)])
                first += count
        except BaseException as error:  # noqa: BLE001 - told by the main thread, which would wait for ever
            self.error = error

    def _plain(self, first: int, names: list[str]) -> None:
        try:
            self._client.publish(*TOPIC, _payloads(names))
        except FairleadError:
            time.sleep(0.01)  # being killed or started
        else:
            self.acknowledged.update(names)

    def _once(self, first: int, names: list[str]) -> None:
        producer = requests.Producer(id=self.name, epoch=1, sequence=first)
        while not self._stop.is_set():
            try:
                self._client.publish(*TOPIC, _payloads(names), producer=producer)
            except Permanent:
                raise
            except FairleadError:
                time.sleep(0.01)
            else:
                self.acknowledged.update(names)
                return

    def _transaction(self, first: int, names: list[str]) -> None:
        end = self._random.choice(["commit", "commit", "abort"])
        try:
            pointer = self._client.start_transaction(30).transactionWritePointer
            self._client.publish_in(pointer, *TOPIC, _payloads(names))
            if end == "abort":
                # Asked to hide: from now on these must never be seen, unless the answer was lost.
                self._client.finish_transaction(pointer, "abort")
                self.aborted.update(names)
            else:
                self._client.finish_transaction(pointer, "commit")
                self.acknowledged.update(names)
        except FairleadError:
            time.sleep(0.01)

    def _work(self, first: int, names: list[str]) -> None:
        kept = Kept(names)
        try:
            with TransactionContext(self._client, participants=[kept], buffer_bytes_max=WORK_BYTES) as work:
                for name in names:
                    work.publish(*TOPIC, _payloads([name]))
        except InDoubt as doubt:
            kept.persisted = self._has_committed(doubt.pointer)
        except FairleadError:
            time.sleep(0.01)
        # Whatever happened: the participant's change is kept exactly if the messages are visible.
        (self.acknowledged if kept.persisted else self.aborted).update(names)

    def _has_committed(self, pointer: int) -> bool:
        """Do what the error says: asking for an abort shows how the transaction ended, or ends it."""
        while True:
            try:
                self._client.finish_transaction(pointer, "abort")
            except TransactionOver as over:
                return over.state == "committed"
            except FairleadError:
                time.sleep(0.01)
            else:
                return False

    def _tell(self, first: int, names: list[str]) -> None:
        assert self._publisher is not None
        for name, payload in zip(names, _payloads(names), strict=True):
            if self._publisher.waiting < TOLD_WAITING and self._publisher.publish(payload):
                self._told.add(name)
        time.sleep(0.005)


def _payloads(names: list[str]) -> list[bytes]:
    return [name.encode().ljust(PAYLOAD_PAD) for name in names]


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times, then read everything and count."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder, MessagingProgram(Path(folder)) as program:
        with Client(program.url) as client:
            client.create_topic(*TOPIC)
        producers = [Producer(kind, number, program.url, seed) for number in range(PRODUCERS_OF_EACH) for kind in KINDS]
        for producer in producers:
            producer.thread.start()
        for kill in range(kills):
            time.sleep(random.uniform(*SECONDS_BETWEEN))
            program.kill()
            program.start()
            if (kill + 1) % 25 == 0:
                progress(f"  {kill + 1} kills, {sum(len(each.acknowledged) for each in producers)} acknowledged")
        for producer in producers:
            producer.finish()
            if producer.error is not None:
                raise producer.error
        return _count(kills, program, producers)


def _count(kills: int, program: MessagingProgram, producers: list[Producer]) -> Count:
    seen, disorder = _read(program)
    acknowledged = set().union(*(each.acknowledged for each in producers))
    aborted = set().union(*(each.aborted for each in producers))
    return Count(
        kills=kills,
        acknowledged=len(acknowledged),
        lost=len(acknowledged - set(seen)),
        duplicated=sum(count - 1 for count in seen.values()),
        untrue=len(aborted & set(seen)) + disorder,
    )


def _read(program: MessagingProgram) -> tuple[Counter[str], int]:
    """Every committed message by name, and how often an id was not above the one before it.

    Transactions whose producer lost its answer are ended first, as an operator would.
    """
    seen: Counter[str] = Counter()
    last, disorder = b"", 0
    _end_open_transactions(program.url)
    with BulkClient(program.url) as client:
        position = ""
        while True:
            page = client.poll("/".join(TOPIC), after=position)
            for message_id, payload in zip(
                page.table.column("id").to_pylist(), page.table.column("payload").to_pylist(), strict=True
            ):
                disorder += message_id <= last
                last = message_id
                seen[payload.decode().rstrip()] += 1
            if page.table.num_rows == 0 and page.next_position == position:
                return seen, disorder
            position = page.next_position


def _end_open_transactions(url: str) -> None:
    with Client(url) as client:
        for each in client.transactions():
            client.finish_transaction(each.transactionWritePointer, "invalidate")
