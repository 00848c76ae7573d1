"""`fairlead topics` against the real service, the way a person types it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from tests.support.topics.messaging import Topics

from fairlead_cli import completing, kubectl_completion
from fairlead_cli.clients import messaging_client
from fairlead_cli.commands.messaging import topics as command
from fairlead_cli.main import build
from fairlead_messaging.client.io.sync_client import Client

Run = Callable[..., Result]


def test_a_topic_from_create_to_delete(run: Run) -> None:
    assert run("create", "ns/t", "--ttl", "60", "-p", "owner=x").exit_code == 0
    assert run("create", "ns/t").exit_code == 1
    assert json.loads(run("create", "ns/t", "-o", "json").stdout) == {"created": False}
    assert json.loads(run("list", "-n", "ns", "-o", "json").stdout) == ["t"]
    assert json.loads(run("show", "ns/t", "-o", "json").stdout)["properties"]["owner"] == "x"
    assert "ttl: 60" in run("show", "ns/t").stdout
    assert run("update", "ns/t", "--ttl", "61").exit_code == 0
    shown = run("show", "ns/t").stdout
    assert "ttl: 61" in shown
    assert "owner" not in shown
    assert run("delete", "ns/t").exit_code == 0
    assert run("list", "-n", "ns").stdout == ""


def test_a_topic_of_fairlead_is_not_deleted_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal only with --yes; at one it asks."""
    assert run("create", "system/events").exit_code == 0
    done = run("delete", "system/events")
    assert done.exit_code == 2 and "system/events is Fairlead's own topic" in done.output and "--yes" in done.output
    monkeypatch.setattr(command, "_is_asked", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert "nothing was changed" in (done := run("delete", "system/events")).output and done.exit_code == 1
    assert run("list", "-n", "system").stdout == "events\n"
    assert run("delete", "system/events", "--yes").exit_code == 0
    assert run("list", "-n", "system").stdout == ""


def test_a_topic_with_messages_is_not_deleted_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "ns/t")
    run("publish", "ns/t", "a", "b")
    done = run("delete", "ns/t")
    assert done.exit_code == 2 and "ns/t holds 2 messages: deleting it loses them" in done.output, done.output
    monkeypatch.setattr(command, "_is_asked", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert run("delete", "ns/t").exit_code == 1
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    assert run("delete", "ns/t").exit_code == 0


def test_a_topic_that_does_not_exist_is_not_asked_about(run: Run) -> None:
    for name in ("ns/t", "system/event"):
        done = run("delete", name)
        assert done.exit_code == 1 and "does not exist" in done.output and "own topic" not in done.output


@pytest.mark.parametrize(
    "line",
    [
        ("list",),
        ("transactions", "list"),
        ("subscriptions", "list", "t"),
        ("create", "u"),
        ("tail", "t"),
        ("subscriptions", "put", "t", "s", "http://127.0.0.1:9/in"),
    ],
)
def test_the_address_may_follow_the_command(run: Run, messaging: Topics, line: tuple[str, ...]) -> None:
    """And then it counts, whatever stands before it."""
    run("create", "t")
    there = ["topics", "--url", "http://127.0.0.1:1", *line, "--url", messaging.url]
    done = CliRunner().invoke(build(), there)
    assert done.exit_code == 0, done.output


def test_publish_and_poll(run: Run) -> None:
    run("create", "t")
    assert run("publish", "t", "a", "b").exit_code == 0
    assert run("publish", "t", stdin="c\nd\n").stdout == "2 published\n"
    lines = [json.loads(line) for line in run("poll", "t", "-o", "json").stdout.splitlines()]
    assert [base64.b64decode(line["payload"]).decode() for line in lines] == ["a", "b", "c", "d"]
    assert run("poll", "t", "--from", lines[2]["id"]).stdout.count("\n") == 2
    assert run("poll", "t", "--from", "99999999999999").stdout == ""
    assert run("poll", "t", "--limit", "1").stdout.split()[-1] == "a"


def test_a_long_input_goes_out_in_several_requests(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PUBLISH_MESSAGES", 2)
    run("create", "t")
    assert run("publish", "t", stdin="a\nb\nc\nd\ne\n").stdout == "5 published\n"
    assert run("poll", "t").stdout.count("\n") == 5


def test_inspect_marks_what_readers_skip_and_wait_for(run: Run, messaging: Topics) -> None:
    run("create", "t")
    run("publish", "t", "plain")
    with Client(messaging.url) as client:
        pointer = client.start_transaction().transactionWritePointer
        taken_back = client.publish_in(pointer, "default", "t", [b"taken back"])
        client.roll_back("default", "t", taken_back)
        client.publish_in(pointer, "default", "t", [b"open"])
    rows = [json.loads(line) for line in run("inspect", "t", "-o", "json").stdout.splitlines()]
    assert [(row["state"], row["transaction"]) for row in rows] == [
        ("visible", None), ("hidden", pointer), ("undecided", pointer),
    ]  # fmt: skip
    assert f"undecided  transaction {pointer}  open" in run("inspect", "t").stdout
    assert run("inspect", "t", "--state", "hidden").stdout.count("\n") == 1
    assert run("inspect", "t", "--after", rows[1]["id"]).stdout.count("\n") == 1


def test_lag_by_reader_and_the_transaction_that_holds_them_up(run: Run, messaging: Topics) -> None:
    run("create", "t")
    run("publish", "t", "a", "b", "c")
    assert json.loads(run("lag", "t", "-o", "json").stdout) == []
    with Client(messaging.url) as client:
        client.note_reader(
            "default", "t", "table", position=client.plan("default", "t", after="", limit_rows=1).upto or ""
        )
        pointer = client.start_transaction().transactionWritePointer
        client.publish_in(pointer, "default", "t", [b"open"])
    answer = run("lag", "t")
    assert answer.stdout.startswith("table: 3 messages, 0.0 s behind; last reported 2027-")
    assert f"wait for transaction {pointer} for " in answer.stderr
    assert "at the latest)" in answer.stderr
    [reader] = json.loads(run("lag", "t", "-o", "json").stdout)
    assert (reader["name"], reader["lag_messages"]) == ("table", 3)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "a/"),
        ("show", "/b"),
        ("create", "t", "-p", "x"),
        ("publish", "t"),
        ("poll", "t", "--from", "yesterday"),
        ("poll", "t", "--limit", "0"),
        ("replay", "t", "t"),
    ],
)
def test_bad_words_are_usage_errors(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words, stdin="").exit_code == 2


def test_what_the_service_refuses_is_exit_1(run: Run) -> None:
    answer = run("show", "nothing")
    assert answer.exit_code == 1
    assert answer.stderr == "Error: topic default/nothing does not exist\n"
    run("create", "telemetry")
    answer = run("tail", "telemtry")
    assert answer.stderr == "Error: topic default/telemtry does not exist; did you mean default/telemetry?\n"
    assert run("create", "t", "--ttl", "0").exit_code == 1
    assert run("create", "../x/t").exit_code == 2, "wrong use: no topic can be called so"


def test_topics_of_all_namespaces(run: Run) -> None:
    for name in ("a/t", "b/t", "b/u", "c/gone"):
        run("create", name)
    run("delete", "c/gone")
    assert run("list", "-A").stdout == "a/t\nb/t\nb/u\n"
    assert json.loads(run("list", "-A", "-o", "json").stdout) == ["a/t", "b/t", "b/u"]
    run("create", "t")
    listed = run("list")
    assert (listed.stdout, listed.stderr) == ("t\n", "more in 2 other namespaces: -A\n")


def test_a_missing_topic_is_named_with_the_command_that_creates_it(run: Run) -> None:
    run("create", "ns/t")
    for line in (("publish", "ns/u", "x"), ("replay", "ns/t", "ns/u")):
        refused = run(*line)
        assert refused.exit_code == 1
        assert "topic ns/u does not exist; create it: fairlead topics create ns/u\n" in refused.stderr


def test_a_misspelled_property_is_pointed_out(run: Run) -> None:
    created = run("create", "ns/t", "-p", "tll=60", "-p", "owner=x")
    assert created.exit_code == 0
    assert created.stderr == "fairlead topics: property 'tll' is stored without effect; did you mean ttl?\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("list",), "no topics in namespace default; -A shows all namespaces"),
        (("tail", "ns/t"), "no messages in ns/t"),
        (("tail", "ns/t", "--from", "1h"), "no messages in ns/t from there on"),
        (("poll", "ns/t"), "no messages in ns/t"),
        (("inspect", "ns/t"), "no rows in ns/t"),
        (("inspect", "ns/t", "--state", "hidden"), "no hidden rows in ns/t"),
        (("lag", "ns/t"), "no reader has reported its position in ns/t"),
        (("transactions", "list"), "no open transactions"),
        (("subscriptions", "list", "ns/t"), "ns/t has no subscriptions"),
    ],
)
def test_an_empty_list_says_so(run: Run, line: tuple[str, ...], words: str) -> None:
    run("create", "ns/t")
    done = run(*line)
    assert (done.exit_code, done.stdout) == (0, "") and words in done.stderr


def test_a_default_address_is_named_when_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messaging_client, "DEFAULT_URL", "http://127.0.0.1:9")
    done = CliRunner(env={"FAIRLEAD_MESSAGING_URL": None}).invoke(build(), ["topics", "list"])
    assert done.exit_code == 1 and "--url URL" in done.stderr and "--config FILE" in done.stderr
    done = CliRunner().invoke(build(), ["topics", "--url", "http://127.0.0.1:9", "list"])
    assert done.exit_code == 1 and "--url" not in done.stderr


# ---- `fairlead topics list`, `top topics` and `ingest jobs` on a real messaging service ----


def test_names_and_facts(messaging: Topics) -> None:
    """Names alone for programs, as ever; wide says what is stored. `list` may be left out."""
    for words in (["create", "orders"], ["publish", "orders", "a", "bb"]):
        assert CliRunner().invoke(build(), ["topics", "--url", messaging.url, *words]).exit_code == 0
    url = ["topics", "--url", messaging.url]
    assert CliRunner().invoke(build(), url).stdout == "orders\n"
    assert json.loads(CliRunner().invoke(build(), [*url, "-o", "json"]).stdout) == ["orders"]
    assert CliRunner().invoke(build(), [*url, "-A", "-o", "yaml"]).stdout == "- default/orders\n"
    head, row = CliRunner().invoke(build(), [*url, "-o", "wide"]).stdout.splitlines()
    assert head.split()[:3] == ["NAMESPACE", "TOPIC", "MESSAGES"] and row.split()[:3] == ["default", "orders", "2"]
    names = CliRunner().invoke(build(), ["tail", "orders", "--url", messaging.url]).stdout
    assert [line.split()[-1] for line in names.splitlines()] == ["a", "bb"]


def test_names_are_completed(messaging: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """By kubectl and by shells: topics of `default`, or of the namespace before the slash."""
    monkeypatch.setenv(completing.VARIABLE, "100")
    assert CliRunner().invoke(build(), ["topics", "--url", messaging.url, "create", "shop/orders"]).exit_code == 0
    assert kubectl_completion.answer(["tail", "--url", messaging.url, "sho"]) == ["shop/", ":6"]
    assert kubectl_completion.answer(["topics", "--url", messaging.url, "tail", "shop/"]) == ["shop/orders", ":4"]
