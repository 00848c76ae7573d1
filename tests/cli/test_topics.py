"""`fairlead topics` against the real service, the way a person types it."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from tests.support.messaging import Topics, serving

from fairlead_cli.main import build

Run = Callable[..., Result]


@pytest.fixture
def service() -> Iterator[Topics]:
    """A running service on a loop of its own; the command line is a program with another one."""
    ready, stop, running = threading.Event(), asyncio.Event(), []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with serving() as topics:
            running.append(topics)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield running[0]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join()


@pytest.fixture
def run(service: Topics) -> Run:
    def invoke(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(build(), ["topics", "--url", service.url, *words], input=stdin)

    return invoke


def test_a_topic_from_create_to_delete(run: Run) -> None:
    """Create, list, show, delete; creating twice is exit 1."""
    assert run("create", "ns/t", "--ttl", "60", "-p", "owner=x").exit_code == 0
    assert run("create", "ns/t").exit_code == 1
    assert json.loads(run("list", "-n", "ns", "-o", "json").stdout) == ["t"]
    assert json.loads(run("show", "ns/t", "-o", "json").stdout)["properties"]["owner"] == "x"
    assert "ttl: 60" in run("show", "ns/t").stdout
    assert run("delete", "ns/t").exit_code == 0
    assert run("list", "-n", "ns").stdout == ""


def test_publish_poll_and_tail(run: Run) -> None:
    """Arguments or lines are messages; poll starts at ids and times; tail shows the newest."""
    run("create", "t")
    assert run("publish", "t", "a", "b").exit_code == 0
    assert run("publish", "t", stdin="c\nd\n").exit_code == 0
    lines = [json.loads(line) for line in run("poll", "t", "-o", "json").stdout.splitlines()]
    assert [base64.b64decode(line["payload"]).decode() for line in lines] == ["a", "b", "c", "d"]
    assert run("poll", "t", "--from", lines[2]["id"]).stdout.count("\n") == 2
    assert run("poll", "t", "--from", "99999999999999").stdout == ""
    assert [line.split()[-1] for line in run("tail", "t", "--limit", "2").stdout.splitlines()] == ["c", "d"]


def test_inspect_and_lag(run: Run) -> None:
    """State of every row; no readers yet."""
    run("create", "t")
    run("publish", "t", "a")
    assert "visible" in run("inspect", "t").stdout
    assert json.loads(run("inspect", "t", "-o", "json").stdout)["state"] == "visible"
    assert json.loads(run("lag", "t", "-o", "json").stdout) == []


def test_replay_twice_stores_once(run: Run) -> None:
    """The second run finds everything there."""
    run("create", "source")
    run("create", "target")
    run("publish", "source", "a", "b", "c")
    assert run("replay", "source", "target").stdout == "3 published, 0 were there\n"
    assert run("replay", "source", "target").stdout == "0 published, 3 were there\n"
    assert run("poll", "target").stdout.count("\n") == 3


@pytest.mark.parametrize("words", [("show", "a/"), ("show", "/b"), ("create", "t", "-p", "x"), ("publish", "t")])
def test_bad_words_are_usage_errors(run: Run, words: tuple[str, ...]) -> None:
    """Exit 2 with the reason."""
    assert run(*words, stdin="").exit_code == 2


def test_what_the_service_refuses_is_exit_1(run: Run) -> None:
    """One sentence on standard error."""
    answer = run("show", "nothing")
    assert answer.exit_code == 1
    assert "does not exist" in answer.stderr
    assert run("create", "t", "--ttl", "0").exit_code == 1


def test_an_unreachable_service_is_exit_1() -> None:
    """The address is in the sentence, no traceback."""
    answer = CliRunner().invoke(build(), ["topics", "--url", "http://127.0.0.1:1", "list"])
    assert answer.exit_code == 1
    assert "127.0.0.1:1" in answer.stderr


def test_https_needs_files(run: Run) -> None:
    """Exit 2 names what is missing."""
    answer = CliRunner().invoke(build(), ["topics", "--url", "https://127.0.0.1:1", "list"])
    assert answer.exit_code == 2
