"""`fairlead edge deadletters`, and how messages come to lie there: a real agent, killed between attempts."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.edges.edge_line import CountingHub, EdgeProgram

from fairlead_cli.main import build
from fairlead_edge.io.client import EdgeClient, Message
from fairlead_wire.errors import FairleadError

pytestmark = pytest.mark.process

Run = Callable[..., Result]
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {"in": 'FROM /messages/* INTO BrokeredEndpoint("/modules/filter/inputs/in")'},
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}
ONE_RETRY = """[brokered.delivery]
retries_with_no_delay = 1
backoff_retries = 0
maximum_delay_retries = 0
"""


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProgram]:
    folder = tmp_path_factory.mktemp("edge")
    with CountingHub(routes=ROUTES) as hub, EdgeProgram(folder, hub.port, settings=ONE_RETRY) as edge:
        edge.await_routes()
        client = EdgeClient(edge.url)
        client.ack("filter", "in", [each.id for each in client.take("filter", "in")])  # what asked for the routes
        yield edge


@pytest.fixture
def run(edge: EdgeProgram) -> Run:
    def asked(*arguments: str) -> Result:
        verb, *others = arguments or ("list",)  # the address stands behind the verb, as everywhere, or before it
        return CliRunner().invoke(build(), ["edge", "deadletters", verb, "--url", edge.url, *others])

    return asked


def give_back_all(client: EdgeClient) -> None:
    """Until none is left: one that failed before comes alone."""
    while taken := client.take("filter", "in", messages_max=100):
        client.abandon("filter", "in", [each.id for each in taken])


def test_leases_and_attempts_outlive_kill_9_and_a_dead_letter_comes_back(edge: EdgeProgram, run: Run) -> None:
    """What a module has stays its own over restarts; what it gives back too often is listed, with why, and replayed."""
    client = EdgeClient(edge.url)
    assert run("list").output == "no dead letters\n"
    source = "/messages/modules/m/outputs/o"
    client.publish([Message(source=source, body={"n": number}) for number in range(3)])
    held, poison, done = client.take("filter", "in", messages_max=3, lease_seconds=600)
    client.abandon("filter", "in", [poison.id])
    edge.start_again()
    [again] = client.take("filter", "in", messages_max=9, lease_seconds=600)
    assert (again.id, again.attempt) == (poison.id, 2), "the others are in a module's hands"
    assert client.ack("filter", "in", [done.id]) == []
    edge.start_again()
    assert client.take("filter", "in") == []
    [queue] = edge.status()["queues"]
    assert (queue["length"], queue["leased"], queue["retrying"]) == (2, 2, 0)
    assert client.abandon("filter", "in", [poison.id]) == []

    listed = run("list")
    assert "retries_used_up: delivered 2 times; the last time the module gave it back" in listed.output
    [letter] = [json.loads(line) for line in run("list", "-o", "json").output.splitlines()]
    assert (letter["message"]["id"], letter["endpoint"]) == (poison.id, "edge-1/filter/in")
    assert run("replay", str(letter["number"])).output == "1 replayed\n"
    assert run("list").output == "no dead letters\n"
    [anew] = client.take("filter", "in")
    assert (anew.id, anew.attempt) == (poison.id, 1)
    assert client.ack("filter", "in", [anew.id, held.id]) == []
    assert edge.drained()


def test_all_are_replayed_once(edge: EdgeProgram, run: Run) -> None:
    client = EdgeClient(edge.url)
    client.publish([Message(source="/messages/modules/m/outputs/o", body=number) for number in range(3)])
    give_back_all(client)
    assert run("replay", "--all").output == "3 replayed\n"
    taken = client.take("filter", "in")
    assert [each.body for each in taken] == [0, 1, 2]
    client.ack("filter", "in", [each.id for each in taken])


def test_some_are_chosen_by_their_code_and_priority(edge: EdgeProgram, run: Run) -> None:
    client = EdgeClient(edge.url)
    client.publish([Message(source="/messages/modules/m/outputs/o", body=number) for number in range(2)])
    give_back_all(client)
    assert run("list", "--code", "other").output == "no dead letters\n"
    [priority] = {json.loads(line)["priority"] for line in run("list", "-o", "json").output.splitlines()}
    assert len(run("list", "--code", "retries_used_up", "--priority", str(priority)).output.splitlines()) == 2
    assert run("replay", "--priority", "7", "--code", "other").output == "0 replayed\n"
    assert run("replay", "--all", "--code", "other").exit_code == 2
    assert run("replay", "--code", "retries_used_up").output == "2 replayed\n"
    taken = client.take("filter", "in")
    assert [each.body for each in taken] == [0, 1]
    client.ack("filter", "in", [each.id for each in taken])


def test_killed_while_it_replays_each_message_is_a_letter_or_waits_and_is_there_once(
    edge: EdgeProgram, run: Run
) -> None:
    client, count = EdgeClient(edge.url), 40
    client.publish([Message(source="/messages/modules/m/outputs/o", body=number) for number in range(count)])
    give_back_all(client)
    numbers = [json.loads(line)["number"] for line in run("list", "-o", "json").output.splitlines()]
    assert len(numbers) == count

    def replay() -> None:
        with contextlib.suppress(FairleadError):
            for number in numbers:
                client.replay([number])

    asking = threading.Thread(target=replay)
    asking.start()
    edge.start_again()
    asking.join(60)
    left = len(run("list", "-o", "json").output.splitlines())
    [queue] = edge.status()["queues"]
    assert left + queue["length"] == count
    assert run("replay", *map(str, numbers)).output == f"{left} replayed\n"
    assert run("replay", *map(str, numbers)).output == "0 replayed\n"
    taken = client.take("filter", "in", messages_max=count)
    assert sorted(each.body for each in taken) == list(range(count))
    client.ack("filter", "in", [each.id for each in taken])


def test_wrong_use_and_no_agent_are_one_sentence(run: Run, tmp_path: Path) -> None:
    both = run("replay")
    assert both.exit_code == 2 and "--all" in both.output
    bad = tmp_path / "token"
    bad.write_text("two words\n")
    wrong = CliRunner().invoke(build(), ["edge", "deadletters", "--token-file", str(bad), "list"])
    assert wrong.exit_code == 2 and "token" in wrong.output and "two words" not in wrong.output
    away = CliRunner().invoke(build(), ["edge", "deadletters", "--url", "http://127.0.0.1:9", "list"])
    assert away.exit_code == 1 and "no answer" in away.output
