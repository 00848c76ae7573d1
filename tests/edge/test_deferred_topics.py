"""The real line up with a topic whose namespace is over its quota: it waits alone, over kill -9 of every program."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.support.processes import wait_until
from tests.support.whole_line import WholeLine

from fairlead_edge.io.client import EdgeClient, Message

pytestmark = [pytest.mark.process, pytest.mark.verify]

FULL, GOOD = "full/telemetry", "good/telemetry"
COUNT = 200
QUOTA = '[[quotas]]\nnamespace = "full"\nstored_bytes = 20000\n'
ROUTES: dict[str, Any] = {
    "schemaVersion": "1.1.0",
    "routes": {
        name: {"route": f"FROM /messages/modules/{name}/* INTO $upstream", "priority": 3, "topic": topic}
        for name, topic in (("full", FULL), ("good", GOOD))
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}


class Program(Protocol):
    """It may be killed and started again."""

    def kill(self) -> object: ...
    def start(self) -> object: ...


def publish(line: WholeLine, first: int) -> None:
    """Both kinds in turns, so that they share batches."""
    messages = [
        Message(source=f"/messages/modules/{name}/outputs/o", body={"n": number, "text": "x" * 300})
        for number in range(first, first + COUNT)
        for name in ("full", "good")
    ]
    for begin in range(0, len(messages), 50):
        EdgeClient(line.edge.url).publish(messages[begin : begin + 50])


def numbers(line: WholeLine, topic: str) -> list[int]:
    return [each["body"]["n"] for each in line.in_topic(topic)]


def arrived(line: WholeLine, count: int) -> bool:
    return len(numbers(line, GOOD)) == count


def queue(line: WholeLine) -> dict[str, Any]:
    [found] = [each for each in line.edge.status()["queues"] if each["priority"] == 3]
    return dict(found)


def test_a_topic_over_its_quota_delays_no_other_topic(tmp_path: Path) -> None:
    """Each message once and in order, and the books agree, when the quota is lifted."""
    with WholeLine(tmp_path, routes=ROUTES, messaging=QUOTA) as line:
        publish(line, 0)
        wait_until("healthy messages arrive", partial(arrived, line, COUNT), seconds=60)
        wait_until("the topic is deferred", lambda: queue(line)["deferredTopics"], seconds=60)
        said = queue(line)
        [deferred] = said["deferredTopics"]
        assert (deferred["topic"], deferred["code"]) == (FULL, "over_quota") and "quota" in deferred["reason"]
        assert said["stalled"] is None
        stored = len(numbers(line, FULL))
        assert 0 < stored < COUNT
        wait_until("the books agree with the topics", lambda: queue(line)["sent"] == stored + COUNT, seconds=60)
        assert said["length"] == COUNT - stored

        programs: tuple[Program, ...] = (line.edge, line.hub, line.messaging)
        for number, program in enumerate(programs, 1):
            program.kill()
            program.start()
            wait_until("the agent is back", lambda: line.edge.status()["link"]["state"] == "connected", seconds=60)
            publish(line, number * COUNT)
            wait_until("healthy messages arrive", partial(arrived, line, (number + 1) * COUNT), seconds=60)
        assert len(numbers(line, FULL)) == stored

        line.messaging.kill()
        line.messaging.set("")
        line.messaging.start()
        wait_until("the outbox drains", line.edge.drained, seconds=120)
        for topic in (FULL, GOOD):
            assert numbers(line, topic) == list(range(4 * COUNT)), "each once, in order"
        assert queue(line)["sent"] == 8 * COUNT and queue(line)["deferredTopics"] == []
