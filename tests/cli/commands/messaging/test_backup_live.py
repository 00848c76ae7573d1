"""Backups of a service that is published to without a pause and killed; each is started as a service again."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.processes import wait_until
from tests.support.topics.messaging_program import PROGRAM, MessagingProgram

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.retry import PATIENT

pytestmark = [pytest.mark.process, pytest.mark.verify]
TOPIC = ("default", "orders")
BATCH = 50
SECONDS = 240.0
RESERVE = 3_000
"""Messages there are before the first backup, so that one can be killed in its middle."""


class Writer:
    """Publishes batches of ascending numbers, each batch all or nothing, through every restart."""

    def __init__(self, url: str) -> None:
        self.acknowledged = self.sent = 0
        self._url, self._stopping = url, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with Client(self._url, retries=PATIENT) as client:
            for first in itertools.count(step=BATCH):
                if self._stopping.is_set():
                    return
                self.sent = first + BATCH
                client.publish(*TOPIC, payloads(first), producer=Producer(id="w", epoch=1, sequence=first))
                self.acknowledged = first + BATCH

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS)


def payloads(first: int) -> list[bytes]:
    return [b"%d %s" % (number, b"x" * 1000) for number in range(first, first + BATCH)]


def fairlead(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "messaging", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)


def numbers(client: Client) -> list[int]:
    return [int(message.payload.split()[0]) for message in client.messages(*TOPIC)]


def test_every_backup_is_a_consistent_snapshot_of_a_running_service(tmp_path: Path) -> None:
    """No number is missing below the newest; what was acknowledged before it began is in it. Killed, there is none.

    A restored service knows the producer's sequences, and a reader that had read beyond the backup gets what is new.
    """
    (tmp_path / "old").mkdir()
    bounds: dict[Path, tuple[int, int]] = {}
    with MessagingProgram(tmp_path / "old") as program:
        with Client(program.url) as client:
            client.create_topic(*TOPIC)
        writer = Writer(program.url)
        try:
            wait_until("enough is there", lambda: writer.acknowledged >= RESERVE, seconds=SECONDS)
            for number in range(2):
                file, before = tmp_path / f"{number}.backup", writer.acknowledged
                done = fairlead("backup", "--url", program.url, "--out", str(file))
                assert done.returncode == 0, done.stderr
                bounds[file] = (before, writer.sent)
            cut = tmp_path / "cut.backup"
            killed = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "messaging", "backup", "--url", program.url, "--out", str(cut)],
                stderr=subprocess.PIPE,
                text=True,
            )
            partial = cut.with_name("cut.backup.part")
            wait_until("it began", lambda: partial.exists() or killed.poll() is not None, seconds=SECONDS)
            program.kill()
            _, said = killed.communicate(timeout=SECONDS)
            # On a fast machine it may have been whole by then; what is not whole is not there.
            assert cut.exists() == (killed.returncode == 0) and "Traceback" not in said
            assert "IncompleteRead" not in said
            assert not partial.exists()
            program.start()
            at = writer.acknowledged
            wait_until("it goes on", lambda: writer.acknowledged > at, seconds=SECONDS)
        finally:
            writer.stop()
        with Client(program.url) as client:
            newest = list(client.messages(*TOPIC))[-1].id
            assert numbers(client) == list(range(writer.acknowledged))
    for (file, (least, most)), store in zip(bounds.items(), ("rocksdb", "sqlite"), strict=True):
        folder = tmp_path / store
        folder.mkdir()
        done = fairlead("restore", str(file), "--data-dir", str(folder / "data"), "--store", store)
        assert done.returncode == 0, done.stderr
        with MessagingProgram(folder, more=f'store = "{store}"') as restored, Client(restored.url) as client:
            held = len(numbers(client))
            assert numbers(client) == list(range(held)) and least <= held <= most and held % BATCH == 0
            again = client.publish(
                *TOPIC, payloads(held - BATCH), producer=Producer(id="w", epoch=1, sequence=held - BATCH)
            )
            assert len(again.known) == BATCH and len(numbers(client)) == held
            client.publish(*TOPIC, payloads(held), producer=Producer(id="w", epoch=1, sequence=held))
            beyond = [
                int(each.payload.split()[0]) for each in client.messages(*TOPIC, start_from=newest, inclusive=False)
            ]
            assert beyond == list(range(held, held + BATCH))
