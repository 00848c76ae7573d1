"""What a push subscription gave up, put back with the command that the how-to names, while both programs are killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import wait_until
from tests.support.topics.messaging_program import PROGRAM, MessagingProgram

from fairlead_messaging.client.io.sync_client import Client

pytestmark = [pytest.mark.process, pytest.mark.verify]
SECONDS = 240.0
MESSAGES = 1_500
PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "repair-dead-letters.md"
SOURCE, DEAD, AGAIN = ("default", "orders"), ("default", "orders-dead"), ("default", "orders-again")


class Program:
    """Takes what is posted; until it is ``mended`` it refuses each third message for good."""

    def __init__(self) -> None:
        self.mended = False
        self.taken: Counter[bytes] = Counter()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                payload = self.rfile.read(int(self.headers["Content-Length"]))
                takes = outer.mended or int(payload) % 3
                outer.taken[payload] += bool(takes)
                self.send_response(200 if takes else 422)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """Messaging was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/orders"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def program() -> Iterator[Program]:
    opened = Program()
    yield opened
    opened.close()


def replay(service: MessagingProgram) -> subprocess.Popen[str]:
    """As the page names it, from a shell of its own."""
    assert "`fairlead topics replay DEAD TARGET`" in PAGE.read_text()
    command = ["topics", "--url", service.url, "replay", "/".join(DEAD), "/".join(AGAIN)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def payloads(client: Client, topic: tuple[str, str]) -> list[bytes]:
    return [each.payload for each in client.messages(*topic)]


def test_what_a_subscription_gave_up_comes_back_once(tmp_path: Path, program: Program) -> None:
    """Messaging is killed while it pushes and while it is replayed into; of two people one is killed, too."""
    with MessagingProgram(tmp_path) as service, Client(service.url, timeout_seconds=60) as client:
        for topic in (SOURCE, DEAD, AGAIN):
            client.create_topic(*topic)
        client.put_subscription(*SOURCE, "hook", url=program.url, dead_letter_topic="/".join(DEAD))
        sent = [b"%d" % number for number in range(MESSAGES)]
        client.publish(*SOURCE, sent)
        wait_until("some are given up", lambda: len(payloads(client, DEAD)) > 50, seconds=SECONDS)
        service.kill()
        service.start()
        refused = sent[::3]
        wait_until("all are counted", lambda: len(payloads(client, DEAD)) >= len(refused), seconds=SECONDS)
        assert payloads(client, DEAD) == refused and "422" in client.subscription(*SOURCE, "hook").last_error

        program.mended = True
        client.put_subscription(*AGAIN, "hook", url=program.url)
        killed, other = replay(service), replay(service)
        wait_until("replaying", lambda: len(payloads(client, AGAIN)) > 0, seconds=SECONDS)
        killed.kill()
        service.kill()
        service.start()
        killed.communicate()
        said, trouble = other.communicate(timeout=SECONDS)
        assert other.returncode == 0, f"it waits for the service: {said} {trouble}"
        assert payloads(client, AGAIN) == refused
        last = replay(service)
        assert last.communicate(timeout=SECONDS)[0] == f"0 published, {len(refused)} already existed\n"
        wait_until("the mended program has all", lambda: set(program.taken) == set(sent), seconds=SECONDS)
