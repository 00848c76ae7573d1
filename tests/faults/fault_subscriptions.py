"""Messaging is killed with -9 while it pushes to an endpoint that fails, and its dead letter topic comes and goes.

Law: in the end every message is counted once, as delivered, dead-lettered or expired; the endpoint or the dead letter
topic has everything that did not expire.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.collect import Count
from tests.support.processes import wait_until
from tests.support.topics.messaging_program import MessagingProgram

from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire import delivery_policy
from fairlead_wire.errors import FairleadError, Permanent

ROOM = "messaging"
KILLS = 40
TOPIC, DEAD = ("default", "pushed"), ("default", "dead")
EACH_ROUND = 40
SETTLE_SECONDS = 240.0
SECONDS_BETWEEN = (0.1, 0.8)
POLICY = {"retries_with_no_delay": 1, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "backoff_retries": 0}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Its peer was killed."""


class Endpoint:
    """Accepts some, defers others, and refuses some permanently; ``calm``: accepts all."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.taken: set[str] = set()
        self.calm = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                payload = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.send_response(outer.answer(payload))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, payload: str) -> int:
        fate = 1.0 if self.calm else self.random.random()
        if fate < 0.1:
            return 503
        if fate < 0.2:
            return 400
        self.taken.add(payload)
        return 200

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def _pushing(seed: int) -> Iterator[tuple[MessagingProgram, Endpoint]]:
    endpoint = Endpoint(seed)
    try:
        with tempfile.TemporaryDirectory() as folder, MessagingProgram(
            Path(folder), more="[cleanup]\ninterval_seconds = 0.2"
        ) as program:  # fmt: skip
            yield program, endpoint
    finally:
        endpoint.close()


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Publish, kill, remove and restore the dead letter topic; then wait until everything is counted."""
    random = Random(seed)
    published: set[str] = set()
    mortal: set[str] = set()
    with _pushing(seed) as (program, endpoint), Client(program.url, timeout_seconds=10) as client:
        client.create_topic(*TOPIC)
        client.put_subscription(
            *TOPIC, "s", url=endpoint.url, delivery=delivery_policy.parse(POLICY), dead_letter_topic="/".join(DEAD)
        )
        for kill in range(kills):
            names = [f"{kill}/{number}" for number in range(EACH_ROUND)]
            ttl = random.choice([None, None, 1])
            client.publish(*TOPIC, [name.encode() for name in names], ttl_seconds=ttl)
            published.update(names)
            mortal.update(names if ttl else [])
            _change_dead_topic(client, kill)
            time.sleep(random.uniform(*SECONDS_BETWEEN))
            program.kill()
            program.start()
            if (kill + 1) % 10 == 0:
                progress(f"  {kill + 1} kills, {len(published)} published, {len(endpoint.taken)} taken")
        endpoint.calm = True
        _change_dead_topic(client, 0)
        found: Any = wait_until(
            "everything is counted",
            lambda: _counted(client, len(published)),
            seconds=SETTLE_SECONDS,
            describe=lambda: json.dumps(str(client.subscription(*TOPIC, "s"))) + program.running.tail(),
        )
        letters = [each.payload.decode() for each in client.messages(*DEAD)]
        lost = len(published - mortal - endpoint.taken - set(letters))
        total = found.delivered + found.dead_lettered + found.dropped + found.expired
        return Count(
            kills=kills,
            acknowledged=len(published),
            lost=lost,
            duplicated=len(letters) - len(set(letters)),
            untrue=abs(total - len(published)) + found.dropped,
        )


def _counted(client: Client, count: int) -> Any:
    try:
        found = client.subscription(*TOPIC, "s")
    except FairleadError as error:
        raise OSError(str(error)) from error
    if found.waiting_dead_letters:
        return None
    return found if found.delivered + found.dead_lettered + found.dropped + found.expired >= count else None


def _change_dead_topic(client: Client, turn: int) -> None:
    """Missing at first; there; taking nothing plain; there again.  It is never deleted: its letters are counted."""
    try:
        client.create_topic(*DEAD) if turn % 4 != 1 or turn > 3 else None
        client.update_topic(*DEAD, {"transactional": "required" if turn % 3 == 2 else "allowed"})
    except Permanent:
        return
