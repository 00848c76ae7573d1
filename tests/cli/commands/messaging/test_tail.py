"""`fairlead topics tail`: the newest, and what comes, over restarts of the service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.support.processes import wait_until
from tests.support.topics.messaging import Topics
from tests.support.topics.messaging_service import MessagingService

from fairlead_cli.commands.messaging import tail
from fairlead_messaging.api.responses import Page, Plan
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.request import ClientRequest

Run = Callable[..., Result]


def last_words(answer: Result) -> list[str]:
    return [line.split()[-1] for line in answer.stdout.splitlines()]


def test_the_newest_come_last(run: Run) -> None:
    """As many as there are at most; none on request; from a place all that follows."""
    run("create", "t")
    assert run("tail", "t").stdout == ""
    run("publish", "t", "a", "b", "c", "d")
    assert last_words(run("tail", "t", "--limit", "2")) == ["c", "d"]
    assert last_words(run("tail", "t")) == ["a", "b", "c", "d"]
    assert run("tail", "t", "--limit", "0").stdout == ""
    ids = [json.loads(line)["id"] for line in run("tail", "t", "-o", "json").stdout.splitlines()]
    assert last_words(run("tail", "t", "--from", ids[1])) == ["b", "c", "d"]
    assert last_words(run("tail", "t", "--from", ids[1], "--limit", "2")) == ["b", "c"]
    assert last_words(run("tail", "t", "--from", ids[1], "--limit", "9")) == ["b", "c", "d"]
    assert run("tail", "t", "--from", ids[1], "--limit", "0").stdout == ""


def test_only_the_end_of_a_long_topic_is_read(run: Run, messaging: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service says how rows are spread; what was rolled back at the end is passed over."""
    monkeypatch.setattr(tail, "READ_ROWS", 20)
    run("create", "t")
    polled = 0
    with Client(messaging.url) as client:
        for start in range(0, 3000, 100):
            client.publish("default", "t", [b"%d" % number for number in range(start, start + 100)])
        pointer = client.start_transaction().transactionWritePointer
        client.publish_in(pointer, "default", "t", [b"undone"] * 200)
        client.finish_transaction(pointer, "abort")
        ask = Client.do

        def counted(self: Client, call: ClientRequest[Any]) -> Any:
            nonlocal polled
            answer = ask(self, call)
            polled += len(answer.messages) if isinstance(answer, Page) else 0
            return answer

        monkeypatch.setattr(Client, "do", counted)
    answer = run("tail", "t", "--limit", "3", "--committed")
    assert last_words(answer) == ["2997", "2998", "2999"]
    assert 3 <= polled < 1000


def test_a_topic_whose_plan_does_not_get_closer_is_read_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def plan(self, *args: object, **how: object) -> Plan:
            from fairlead_messaging.api.responses import Range

            return Plan(service="", generation=1, rows=10**6, ranges=[Range(after="", upto="0a", rows=10**6, bytes=0)])

    assert tail._near_the_end(Client(), ("n", "t"), 1) == ""  # type: ignore[arg-type]


@pytest.mark.process
def test_following_survives_restarts_without_loss_or_repeats(tmp_path: Path) -> None:
    """kill -9 twice, once with messages already waiting at the next start."""
    with MessagingService(tmp_path / "service") as service:
        service.create("default/t")
        service.publish("default/t", [b"0"])
        out, err = tmp_path / "out", tmp_path / "err"
        with out.open("wb") as to, err.open("wb") as errors:
            words = [sys.executable, "-m", "fairlead_cli.main", "topics", "--url", service.url, "tail", "-f", "t"]
            following = subprocess.Popen(words, stdout=to, stderr=errors)
        try:

            def seen(count: int) -> Callable[[], bool]:
                return lambda: out.read_text().count("\n") >= count

            wait_until("the first is shown", seen(1), seconds=120)
            for number in range(1, 4, 2):
                service.publish("default/t", [b"%d" % number])
                wait_until("it is shown", seen(number + 1), seconds=120)
                service.kill()
                wait_until("the outage is reported", lambda: "waiting for it" in err.read_text(), seconds=120)
                service.start()
                service.publish("default/t", [b"%d" % (number + 1)])
                wait_until("it goes on", seen(number + 2), seconds=120)
            assert [line.split()[-1] for line in out.read_text().splitlines()] == ["0", "1", "2", "3", "4"]
            assert err.read_text().count("it is back") == 2
        finally:
            following.terminate()
            following.wait()


@pytest.mark.process
def test_it_ends_when_its_output_is_closed(tmp_path: Path) -> None:
    with MessagingService(tmp_path / "service") as service:
        service.create("default/t")
        service.publish("default/t", [b"0"])
        quick = (
            "import fairlead_messaging.client.cursor as c; c.FOLLOW_WAIT_MS = 50; "
            "import fairlead_cli.main as m; m.main()"
        )
        words = [sys.executable, "-c", quick, "topics", "--url", service.url, "tail", "-f", "t"]
        following = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert following.stdout is not None
        assert following.stdout.readline().split()[-1] == b"0"
        following.stdout.close()
        assert following.wait(timeout=120) == 0


@pytest.mark.process
@pytest.mark.verify
def test_a_topic_that_goes_away_ends_it(tmp_path: Path) -> None:
    with MessagingService(tmp_path / "service") as service:
        service.create("default/t")
        service.publish("default/t", [b"0"])
        words = [sys.executable, "-m", "fairlead_cli.main", "topics", "--url", service.url, "tail", "-f", "t"]
        following = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert following.stdout is not None
        assert following.stdout.readline().split()[-1] == "0"
        service.delete("default/t")
        _, reason = following.communicate(timeout=120)
        assert following.returncode == 1
        assert "does not exist" in reason
