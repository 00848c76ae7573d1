"""`fairlead ingest check`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.support import pages
from tests.support.topics.messaging import Topics
from tests.support.topics.messaging_service import upstream_message

from fairlead_cli.commands.ingest import check
from fairlead_cli.main import build
from fairlead_ingest.io import contracts
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import contract_file
from fairlead_messaging.client.io.sync_client import Client

Check = Callable[..., Result]
CONTRACT = 'name = "t"\nversion = 2\n[columns]\na = { type = "int", required = true }\n'


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["ingest", "check", *words])


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "t.toml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture
def topic(messaging: Topics) -> Callable[[list[Any]], None]:
    """Publishes bodies, or payloads as they are, into default/t."""

    def publish(bodies: list[Any]) -> None:
        payloads = [
            body if isinstance(body, bytes) else upstream_message(number, body=body)
            for number, body in enumerate(bodies)
        ]
        with Client(messaging.url) as client:
            client.create_topic("default", "t", {})
            client.publish("default", "t", payloads)

    return publish


def job(tmp_path: Path, url: str, **keys: str) -> Path:
    path = tmp_path / "ingest.toml"
    lines = [f'{key} = "{value}"' for key, value in keys.items()]
    path.write_text(
        f'messaging_url = "{url}"\nsecurity = "insecure"\ntopics = ["default/t"]\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n' + "\n".join(lines) + "\n"
    )
    return path


def test_messages_that_fit_are_exit_0(contract: Path, messaging: Topics, topic: Callable[[list[Any]], None]) -> None:
    topic([{"a": number} for number in range(30)])
    with Client(messaging.url) as client:
        open_one = client.start_transaction().transactionWritePointer
        client.publish_in(open_one, "default", "t", [b"undecided"])
        ended = run(str(contract), "t", "--url", messaging.url)
        assert ended.exit_code == 0, ended.output
        assert "default/t: 30 messages, 30 fit, 0 would be dead letters" in ended.stdout
        assert "checking default/t, messages: 30 in" in ended.stderr
        assert client.readers("default", "t") == []


def test_messages_that_do_not_fit_are_exit_1_with_an_example(
    contract: Path, messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    deep = b"[" * 600 + b"]" * 600
    topic([{"a": 1}, {"a": "\x1b]0;owned\x07"}, {"\x1b[2J": 5}, b"\xff\xfe", deep, {"a": 7, "x" * 5000: 1}])
    ended = run(str(contract), "default/t", "--url", messaging.url)
    assert ended.exit_code == 1
    assert "2 fit, 4 would be dead letters" in ended.stdout
    assert "misfit: a: required" in ended.stdout and "misfit: a: is not of type int" in ended.stdout
    assert "too_deep: payload: is nested too deep" in ended.stdout
    assert ended.stdout.replace("\n", "").isprintable() and max(map(len, ended.stdout.splitlines())) < 300
    plain = json.loads(run(str(contract), "t", "--url", messaging.url, "-o", "json").stdout)
    [found] = plain["topics"]
    assert (plain["passed"], found["dead_letters"], found["wrong"][0]["code"]) == (False, 4, "misfit")


def test_the_newest_or_those_since_a_time(
    contract: Path, messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    topic([{"a": "old"}] * 5 + [{"a": 1}] * 7)
    assert "7 messages, 7 fit" in run(str(contract), "t", "--last", "7", "--url", messaging.url).stdout
    assert "12 messages, 7 fit" in run(str(contract), "t", "--since", "1h", "--url", messaging.url).stdout
    assert "8 messages, 7 fit" in run(str(contract), "t", "--since", "1h", "--last", "8", "--url", messaging.url).stdout
    assert "0 messages" in run(str(contract), "t", "--since", "2099-01-01", "--url", messaging.url).stdout


def test_the_version_before_and_the_table(contract: Path, tmp_path: Path) -> None:
    """No service is needed for either; a type that changes breaks both."""
    old = tmp_path / "old.toml"
    old.write_text(CONTRACT.replace("= 2", "= 1").replace('"int", required = true', '"bigint"'))
    compared = run(str(contract), "--against", str(old))
    assert compared.exit_code == 1
    assert "refused  a bigint becomes int" in compared.stdout and "breaks   a is required now" in compared.stdout
    assert run(str(contract), "--against", str(contract)).exit_code == 0
    place = tmp_path / "rows"
    assert "does not exist yet" in run(str(contract), "--table", str(place)).stdout
    own = [pa.field("_topic", pa.string()), pa.field("_date", pa.date32())]
    tables.of("delta").ensure(place, pa.schema([*contracts.columns(contract_file.parse("a int, b string", "s")), *own]))
    kept = run(str(contract), "--table", str(place))
    assert (kept.exit_code, "b is in the table and not in the contract" in kept.stdout) == (0, True)
    clash = run(str(old), "--table", str(place), "-o", "json")
    assert clash.exit_code == 1
    assert json.loads(clash.stdout)["tables"][0]["changes"][0]["kind"] == "refused"


def test_a_jobs_settings_say_all_that_is_asked(
    contract: Path, tmp_path: Path, messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    """Its service, topics, schema and table; a contract named beside them is tried in place of its schema."""
    topic([{"a": 1}])
    config = job(tmp_path, messaging.url, schema=str(contract))
    ended = run("--config", str(config))
    assert ended.exit_code == 0, ended.output
    assert f"table {tmp_path}/rows: does not exist yet" in ended.stdout and "1 message, 1 fit" in ended.stdout
    (tmp_path / "next.toml").write_text(CONTRACT.replace("int", "date"))
    assert run(str(tmp_path / "next.toml"), "--config", str(config)).exit_code == 1
    assert run(str(contract), "t", "--config", str(config), "--pipeline", "other").exit_code == 2


def test_a_contract_is_proposed_that_its_messages_fit(
    tmp_path: Path, messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    topic([{"a": 1.5, "b": "2026-11-22T10:00:00Z"}, {"a": 2}])
    ended = run("--guess", "t", "--url", messaging.url)
    assert ended.exit_code == 0, ended.output
    (tmp_path / "new.toml").write_text(ended.stdout)
    assert 'b = "timestamp"' in ended.stdout
    assert run(str(tmp_path / "new.toml"), "t", "--url", messaging.url).exit_code == 0
    assert json.loads(run("--guess", "t", "--url", messaging.url, "-o", "json").stdout)["contract"]


def test_the_page_says_what_works(
    tmp_path: Path, messaging: Topics, topic: Callable[[list[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its contract takes what it speaks of, and its commands are commands."""
    page = Path(__file__).resolve().parents[4] / "docs" / "howto" / "check-a-contract.md"
    found = list(pages.blocks(page, page.read_text()))
    [contract] = [block.text for block in found if block.language == "toml"]
    (tmp_path / "telemetry.toml").write_text(contract)
    (tmp_path / "before.toml").write_text(contract)
    for name in ("ca.crt", "ci.crt", "ci.key"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    topic([{"site": "north", "open": "read by no route"}, {"site": "north", "at": "2026-11-23"}])
    commands = [line for block in found if block.language == "sh" for line in block.text.splitlines()]
    asked = [line.rpartition("fairlead ingest check ")[2].partition(" >")[0] for line in commands if "check" in line]
    assert len(asked) == 5
    for words in asked:
        here = words.replace("default/telemetry", "default/t").replace("http://127.0.0.1:11015", messaging.url)
        ended = run(*here.replace("https://messaging:11015", messaging.url).split())
        assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "which contract?"),
        (["{missing}"], 2, "does not exist"),
        (["{bad}"], 2, "bad.json: a: 'dub' is not a type"),
        (["{contract}", "--against", "{bad}"], 2, "bad.json"),
        (["{contract}", "--table", "gs://x/y"], 2, "--table"),
        (["{contract}", "--pipeline", "p"], 2, "--config"),
        (["{contract}", "t", "--since", "a" * 40], 2, "id of a message"),
        (["{contract}", "t", "--last", "0"], 2, "--last"),
        (["{contract}", "--config", "{contract}"], 2, "t.toml"),
        (["{contract}", "t", "--url", "http://127.0.0.1:9"], 1, "cannot be reached"),
        (["--guess", "t", "--against", "{contract}"], 2, "--guess reads messages only"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    contract: Path, tmp_path: Path, words: list[str], code: int, reason: str
) -> None:
    (tmp_path / "bad.json").write_text('{"columns": {"a": "dub"}}')
    files = {"contract": contract, "bad": tmp_path / "bad.json", "missing": tmp_path / "none"}
    refused = run(*(word.format(**files) for word in words))
    assert (refused.exit_code, reason in refused.stderr) == (code, True), refused.output
    assert "Traceback" not in refused.output


def test_what_the_service_refuses_is_a_sentence(
    contract: Path, messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    """A topic that is not there; bodies without anything to propose from."""
    topic([[1], "x"])
    assert "does not exist" in run(str(contract), "nosuch", "--url", messaging.url).stderr
    nothing = run("--guess", "t", "--url", messaging.url)
    assert (nothing.exit_code, "none of its 2 messages has a JSON object as its body" in nothing.stderr) == (1, True)
    named = run("--guess", "t", "--name", "a b", "--url", messaging.url)
    assert named.exit_code == (1 if nothing.exit_code else 2)


def test_a_topic_without_messages_of_nodes_says_what_one_is(
    messaging: Topics, topic: Callable[[list[Any]], None]
) -> None:
    topic([b"order,at", b"1,2026-11-01"])
    nothing = run("--guess", "t", "--url", messaging.url)
    assert nothing.exit_code == 1
    assert "none of its 2 messages is a JSON object with id, node, epoch, stream, sequence and body" in nothing.stderr
    assert "the first: JSON is malformed" in nothing.stderr
    topic([{"a": 1}])
    found = run("--guess", "t", "--url", messaging.url)
    assert 'name    = "t"' in found.stdout
    assert "Proposed from 1 message of 3 (2 cannot be read, or the body is not an object) of default/t" in found.stdout
    assert json.loads(run("--guess", "t", "--url", messaging.url, "-o", "json").stdout)["left_out"] == 2


def test_a_topic_without_messages_says_so(messaging: Topics) -> None:
    with Client(messaging.url) as client:
        client.create_topic("default", "t")
    nothing = run("--guess", "t", "--url", messaging.url)
    assert (nothing.exit_code, "no committed messages" in nothing.stderr) == (1, True), nothing.output


# ---- what a check found, in lines ----


SOME_CONTRACT = {"file": "c.toml", "name": "t", "version": 3, "mode": "freeze", "columns": 2, "routes": 1}
TOPIC = {"topic": "a/t", "messages": 3, "fit": 3, "rescued": 0, "dead_letters": 0, "wrong": [], "unknown": [],
         "untold": 0, "routes": {}}  # fmt: skip


def lines(**answer: Any) -> list[str]:
    return list(check.lines({"contract": SOME_CONTRACT, **answer}))


def test_without_a_topic_it_says_that_nothing_was_played() -> None:
    assert lines() == ["c.toml: t version 3, freeze, 2 columns, 1 route", "no messages were tried; name a TOPIC"]


def test_changes_say_whether_they_break_something() -> None:
    changes = [
        {"kind": "added", "column": "a", "route": "", "what": "a new column, int"},
        {"kind": "stricter", "column": "b", "route": "r", "what": "is required now"},
    ]
    found = lines(against={"file": "old", "changes": changes}, tables=[{"table": "x", "exists": True, "changes": []}])
    assert found[1:5] == [
        "against old:", "  ok       a a new column, int", "  breaks   route r: b is required now", "table x:",
    ]  # fmt: skip
    assert found[5] == "  nothing changes"


def test_a_long_list_is_cut_and_says_so() -> None:
    wrong = [
        {"code": "misfit", "field": f"f{n}", "reason": "required", "messages": 1, "example_id": "0", "example": ""}
        for n in range(check.SHOWN_MAX + 2)
    ]
    found = lines(topics=[{**TOPIC, "fit": 0, "dead_letters": 3, "wrong": wrong, "untold": 7}])
    assert "  and 2 more ways not to fit; -o json lists them" in found
    assert "  and more that are not listed one by one, 7 times" in found


def test_names_of_devices_are_shown_and_not_obeyed() -> None:
    found = lines(topics=[{**TOPIC, "unknown": [{"name": "\x1b[2J" + "n" * 500, "type": None, "messages": 1}]}])
    assert found[3].startswith("          1  \\x1b[2Jnn") and found[3].endswith("…: only null")


def test_routes_without_a_message_are_named() -> None:
    found = lines(topics=[{**TOPIC, "rescued": 1, "fit": 2, "routes": {"doors": 3, "engines": 0, "": 0}}])
    assert found[1] == "a/t: 3 messages, 2 fit, 1 would be rescued"
    assert found[-1] == "  no message for engines"
