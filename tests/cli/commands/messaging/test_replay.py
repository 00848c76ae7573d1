"""`fairlead topics replay`: once, whatever is run again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result
from tests.support.topics.messaging import Topics

from fairlead_cli.commands.messaging import replay
from fairlead_messaging.api.responses import Message
from fairlead_messaging.client.io.sync_client import Client

Run = Callable[..., Result]


def payloads(run: Run, topic: str) -> list[str]:
    return [line.split()[-1] for line in run("poll", topic).stdout.splitlines()]


def test_twice_stores_once(run: Run) -> None:
    """The second run finds everything there, also from another start."""
    run("create", "source")
    run("create", "target")
    run("publish", "source", "a", "b", "c")
    assert run("replay", "source", "target").stdout == "3 published, 0 already existed\n"
    assert run("replay", "source", "target").stdout == "0 published, 3 already existed\n"
    second = run("poll", "source", "--limit", "2", "-o", "json").stdout.splitlines()[1]
    assert run("replay", "source", "target", "--from", json.loads(second)["id"]).stdout == (
        "0 published, 2 already existed\n"
    )
    assert payloads(run, "target") == ["a", "b", "c"]


def test_a_stretch_between_two_places(run: Run, messaging: Topics) -> None:
    """From a time on, until before another; counted first on request."""
    run("create", "source")
    run("create", "target")
    start = messaging.clock.now_ms
    for number in range(6):
        messaging.clock.now_ms = start + number * 60_000
        run("publish", "source", str(number))
    stretch = ("--from", str(start + 60_000), "--until", str(start + 240_000))
    dry = run("replay", "source", "target", *stretch, "--dry-run")
    assert dry.stdout == "3 would be published\n"
    assert payloads(run, "target") == []
    done = run("replay", "source", "target", *stretch, "-o", "json")
    assert json.loads(done.stdout) == {"published": 3, "known": 0, "dry_run": False}
    assert payloads(run, "target") == ["1", "2", "3"]


def test_what_was_stored_in_a_transaction_is_replayed_in_order(
    run: Run, messaging: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Payload lists over several pages, between plain messages; what was aborted is not."""
    monkeypatch.setattr(replay, "PAGE_MESSAGES", 3)
    run("create", "source")
    run("create", "target")
    with Client(messaging.url) as client:
        client.publish("default", "source", [b"first"])
        for end, payload in (("commit", b"kept"), ("abort", b"lost"), ("commit", b"kept too")):
            pointer = client.start_transaction().transactionWritePointer
            client.store_in(pointer, "default", "source", [payload] * 5)
            client.publish_in(pointer, "default", "source", [])
            client.finish_transaction(pointer, end)  # type: ignore[arg-type]
        client.publish("default", "source", [b"last"])
        assert run("replay", "source", "target").stdout == "12 published, 0 already existed\n"
        assert run("replay", "source", "target").stdout == "0 published, 12 already existed\n"
        seen = [message.payload for message in client.messages("default", "target")]
    assert seen == [b"first", *[b"kept"] * 5, *[b"kept too"] * 5, b"last"]


def test_no_producer_has_more_gaps_than_the_service_keeps() -> None:
    """Every millisecond its own message, for a minute: each window stays far below 65,536 intervals."""
    start = 1_700_000_000_000
    messages = [Message(id=f"{start + ms:016x}0000{0:020x}", payload=b"") for ms in range(0, 60_000, 7)]
    windows: dict[str, set[int]] = {}
    for message in messages:
        windows.setdefault(replay._window(message), set()).add(replay._number(message.id) % 2**replay._NUMBER_BITS)
    assert sum(len(numbers) for numbers in windows.values()) == len(messages)
    assert 2**replay.WINDOW_BITS <= 65_536 // 4
    assert max(len(numbers) for numbers in windows.values()) <= 2**replay.WINDOW_BITS


def test_a_missing_target_is_said_before_anything_is_read(run: Run) -> None:
    run("create", "source")
    answer = run("replay", "source", "target")
    assert answer.exit_code == 1
    assert "default/target does not exist" in answer.stderr
