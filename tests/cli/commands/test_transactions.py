"""`fairlead topics transactions`: an operator frees readers from a stuck producer."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from tests.support.messaging import Topics

from fairlead_messaging.client.io.sync_client import Client

Run = Callable[..., Result]


def test_who_blocks_is_seen_and_ended(run: Run, messaging: Topics) -> None:
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


def test_one_that_touched_nothing_holds_up_nobody(run: Run, messaging: Topics) -> None:
    """It is listed all the same."""
    with Client(messaging.url) as client:
        pointer = client.start_transaction().transactionWritePointer
    assert "holds up nobody" in run("transactions", "list").stdout
    ended = run("transactions", "invalidate", str(pointer), "-o", "json")
    assert json.loads(ended.stdout) == {"transactionWritePointer": pointer, "state": "invalid"}


def test_a_pointer_nobody_had_is_exit_1(run: Run) -> None:
    """Its state is unknown."""
    answer = run("transactions", "invalidate", "7")
    assert answer.exit_code == 1
    assert "unknown" in answer.stderr
