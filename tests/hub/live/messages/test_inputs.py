"""Messages from the cloud to a module, over the whole line: real API server, hub, messaging and agent."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.processes import wait_until
from tests.support.whole_line import WholeLine

from fairlead_cli.main import build

pytestmark = [pytest.mark.kube, pytest.mark.verify]
SECONDS = 120.0
ROUNDS = 6
PER_ROUND = 5
HOWTO = Path(__file__).resolve().parents[4] / "docs" / "howto" / "send-to-a-module.md"
Answer = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeLine]:
    with WholeLine(tmp_path_factory.mktemp("inputs")) as opened:
        yield opened


def call(url: str, body: Any = None, **headers: str) -> Answer:
    """One request; a refusal is an answer, a broken connection raises ``OSError``."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={key.replace("_", "-"): v for key, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


class Module:
    """A program on the node that takes messages, one after the other, by HTTP."""

    def __init__(self, line: WholeLine, input: str) -> None:
        self.line, self.input = line, input
        self.taken: list[tuple[str, Any, int]] = []
        """Id, body and attempt, in the order they were got."""

    @property
    def _url(self) -> str:
        return f"{self.line.edge.url}/v1/modules/camera/inputs/{self.input}/messages"

    def take(self, wait: float = 0.0) -> bool:
        """One message, acknowledged; False: there was none."""
        _, found = call(f"{self._url}?max=1&wait={wait}&lease=2")
        for each in found["messages"]:
            self.taken.append((each["id"], each.get("body"), each["attempt"]))
            call(f"{self._url}/ack", {"ids": [each["id"]]})
        return bool(found["messages"])

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.take(0.2)
            except (OSError, ValueError):
                time.sleep(0.05)  # the agent is being killed


def path(line: WholeLine, input: str, node: str = "edge-1") -> str:
    return f"http://127.0.0.1:{line.hub.http_port}/v1/nodes/{node}/inputs/camera/{input}/messages"


def send(line: WholeLine, input: str, body: Any, *, key: str, ttl: float = 600.0) -> str:
    """Again and again under one key until it is accepted, as a program does."""
    found: Answer = (0, {})

    def accepted() -> bool:
        nonlocal found
        try:
            found = call(f"{path(line, input)}?ttl={ttl}", {"body": body}, Idempotency_Key=key)
        except (OSError, ValueError):
            return False
        assert found[0] in (202, 429, 503, 404), found
        return found[0] == 202

    wait_until("it is accepted", accepted, seconds=SECONDS, describe=lambda: str(found))
    return str(found[1]["id"])


def state(line: WholeLine, input: str, id: str, wait: float = 0.0) -> str:
    status, found = call(f"{path(line, input)}/{id}?wait={wait}")
    return str(found["state"]) if status == 200 else str(found["error"]["code"])


def accepted_by_the_queue(line: WholeLine, input: str) -> int:
    """How many messages were ever put into it."""
    queues = {each["endpoint"]: each["accepted"] for each in line.edge.status()["queues"]}
    return int(queues.get(f"edge-1/camera/{input}", 0))


def test_a_message_is_leased_by_its_module_and_followed(line: WholeLine) -> None:
    """As the how-to does it: sent by a command, leased and acknowledged by curl, followed to the end."""
    blocks = [each.split("```")[0] for each in HOWTO.read_text().split("```sh\n")[1:]]
    hub, edge = f"http://127.0.0.1:{line.hub.http_port}", line.edge.url
    sending = CliRunner().invoke(
        build(), ["send", "edge-1", "camera/commands", '{"do": "restart"}', "--hub", hub, "-o", "json"]
    )
    assert sending.exit_code == 0, sending.output
    id = json.loads(sending.output)["id"]
    command = next(each for each in blocks if "wait=30" in each).replace("http://127.0.0.1:10550", edge)
    taken = json.loads(subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout)
    [message] = taken["messages"]
    assert (message["id"], message["body"], message["source"]) == (id, {"do": "restart"}, "/fairlead/cloud")
    assert state(line, "commands", id) == "delivered"
    acknowledge = next(each for each in blocks if "/ack" in each).replace("http://127.0.0.1:10550", edge)
    subprocess.run(["bash", "-c", acknowledge], env={"ID": id, "PATH": "/usr/bin:/bin"}, check=True)
    assert state(line, "commands", id, wait=30) == "consumed"


def test_a_command_with_receipt_says_what_became_of_it(line: WholeLine) -> None:
    """Consumed: exit 0; what no module took in time: 1."""
    stop, module = threading.Event(), Module(line, "receipts")
    running = threading.Thread(target=module.run, args=(stop,))
    running.start()
    options = ["--hub", f"http://127.0.0.1:{line.hub.http_port}", "--receipt"]
    try:
        found = CliRunner().invoke(build(), ["send", "edge-1", "camera/receipts", "plain text", *options])
        assert found.exit_code == 0 and "consumed" in found.output, found.output
    finally:
        stop.set()
        running.join()
    found = CliRunner().invoke(
        build(), ["send", "edge-1", "camera/receipts", "1", "--ttl", "1", *options, "--wait", "60"]
    )
    assert found.exit_code == 1 and "expired" in found.output, found.output


def test_accepted_is_delivered_once_over_kills(line: WholeLine) -> None:
    """Hub, messaging and agent are killed while messages are sent and taken: each accepted one is put in once."""
    draw, stop, module = random.Random(23), threading.Event(), Module(line, "counted")
    running = threading.Thread(target=module.run, args=(stop,))
    running.start()
    ids: list[str] = []
    try:
        for number in range(ROUNDS):
            part = (line.hub, line.edge, line.messaging)[number % 3]
            delay = draw.random() * 0.05
            killer = threading.Timer(delay, lambda part=part: part.kill())
            killer.start()
            fresh = [f"{number}-{each}" for each in range(PER_ROUND)]
            sender = threading.Thread(
                target=lambda: ids.extend(send(line, "counted", key, key=key) for key in fresh)  # noqa: B023
            )
            sender.start()
            killer.join()
            part.start()
            sender.join()
        # Also what the module took from an agent that was killed before the acknowledgement: it is given out again.
        wait_until(
            "all are known as consumed",
            lambda: {state(line, "counted", id) for id in ids} == {"consumed"},
            seconds=SECONDS,
        )
    finally:
        stop.set()
        running.join()
    assert len(set(ids)) == ROUNDS * PER_ROUND == accepted_by_the_queue(line, "counted")
    # One that the module got from an agent that was killed is leased, and the one behind it is given out before it.
    at_once = dict.fromkeys(body for _, body, attempt in module.taken if attempt == 1)
    assert list(at_once) == sorted(at_once)
    assert sorted({body for _, body, _ in module.taken}) == [
        f"{number}-{each}" for number in range(ROUNDS) for each in range(PER_ROUND)
    ]


def test_what_expired_while_the_node_was_away_is_never_delivered(line: WholeLine) -> None:
    """And what has time left is, also by a hub that was started meanwhile."""
    line.edge.kill()
    short = send(line, "late", "short", key="short", ttl=1.0)
    long = send(line, "late", "long", key="long")
    assert state(line, "late", long) == "accepted"
    line.hub.kill()
    line.hub.start()
    wait_until("it expires", lambda: state(line, "late", short) in ("expired", "node_away"), seconds=SECONDS)
    line.edge.start()
    module = Module(line, "late")
    wait_until("the other one comes", lambda: module.take(1.0), seconds=SECONDS)
    assert [id for id, _, _ in module.taken] == [long]
    assert accepted_by_the_queue(line, "late") == 1
    assert line.hub.metric("fairlead_hub_inputs_waiting") == 0
