"""`fairlead topics transactions`: an operator frees readers from a stuck producer."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from tests.support.topics.messaging import Topics

from fairlead_messaging.client.io.sync_client import Client

Run = Callable[..., Result]


def test_a_blocking_transaction_is_seen_and_ended(run: Run, messaging: Topics) -> None:
    """Readers of committed messages stop, the operator looks and invalidates, they go on."""
    run("create", "t")
    assert run("transactions", "list").stdout == ""
    with Client(messaging.url) as client:
        pointer = client.start_transaction(600).transactionWritePointer
        client.publish_in(pointer, "default", "t", [b"stuck"])
        client.publish("default", "t", [b"behind"])
        assert run("poll", "t", "--committed").stdout == ""
        [listed] = json.loads(run("transactions", "list", "-o", "json").stdout)
        assert (listed["transactionWritePointer"], listed["topics"][0]["topic"]) == (pointer, "default/t")
        assert "holds up default/t for" in run("transactions", "list").stdout
        assert run("transactions", "invalidate", str(pointer)).stdout == f"{pointer} is invalid\n"
        assert run("poll", "t", "--committed").stdout.split()[-1] == "behind"
        again = run("transactions", "invalidate", str(pointer))
        assert again.exit_code == 1
        assert "is invalid" in again.stderr


def test_one_that_touched_nothing_holds_up_no_reader(run: Run, messaging: Topics) -> None:
    with Client(messaging.url) as client:
        pointer = client.start_transaction().transactionWritePointer
    assert "holds up no reader" in run("transactions", "list").stdout
    ended = run("transactions", "invalidate", str(pointer), "-o", "json")
    assert json.loads(ended.stdout) == {"transactionWritePointer": pointer, "state": "invalid"}


def test_an_unknown_pointer_is_exit_1(run: Run) -> None:
    answer = run("transactions", "invalidate", "7")
    assert answer.exit_code == 1
    assert "unknown" in answer.stderr


def test_without_a_verb_they_are_listed(run: Run, messaging: Topics) -> None:
    """With what is only stored, and for how long readers will be held up at most."""
    run("create", "t", "-p", "hold_up_seconds_max=500")
    with Client(messaging.url) as client:
        pointer = client.start_transaction(600).transactionWritePointer
        client.store_in(pointer, "default", "t", [b"a", b"b"])
        assert "holds up no reader  stored 2 messages for default/t" in run("transactions").stdout
        client.publish_in(pointer, "default", "t", [])
        assert "more at most" in run("transactions").stdout


def test_finished_ones_say_how_they_ended(run: Run, messaging: Topics) -> None:
    with Client(messaging.url) as client:
        one, two, three = (client.start_transaction(600).transactionWritePointer for _ in range(3))
        client.commit(one)
        client.finish_transaction(two, "abort")
        client.finish_transaction(three, "invalidate")
    lines = run("transactions", "list", "--state", "ended").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [str(three), "invalid"], [str(two), "aborted"], [str(one), "committed"],
    ]  # fmt: skip
    assert "invalid (invalidate) 20" in lines[0]
    page = run("transactions", "list", "--state", "ended", "--before", str(three), "--limit", "1", "-o", "json").stdout
    assert [each["transactionWritePointer"] for each in json.loads(page)] == [two]
    assert run("transactions", "list", "--state", "invalid", "--before", str(one)).stderr == "no invalid transactions\n"
