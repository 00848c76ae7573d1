"""`fairlead ingest deadletters` as typed, and `repair` where no Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.tables.letters_world import TOPIC, World, name, payload

from fairlead_cli.main import build
from fairlead_ingest.io.table import tables


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Five messages read: 1 and 3 are letters, one of them no text and one with a terminal's orders in it."""
    made = World(tables.of("delta"), tmp_path / "rows")
    made.publish({number: payload(number) for number in range(5)})
    made.publish({1: b"\xff\xfe", 3: b"\x1b[2J\nnot json"})
    made.run_job(4)
    return made


@pytest.fixture
def config(world: World, tmp_path: Path) -> str:
    path = tmp_path / "ingest.toml"
    path.write_text(
        f'messaging_url = "http://127.0.0.1:9"\nsecurity = "insecure"\ntopics = ["default/t"]\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n'
    )
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["ingest", *words])


def test_they_are_counted_by_kind(config: str) -> None:
    text = run("deadletters", "--config", config)
    assert text.exit_code == 0, text.output
    assert "2 dead letters open, 0 repaired (table /" in text.stdout and "1  not_utf8" in text.stdout
    found = json.loads(run("deadletters", "summary", "--config", config, "-o", "json").stdout)
    assert [kind["code"] for kind in found["pipelines"][0]["kinds"]] == ["not_json", "not_utf8"]


def test_they_are_listed_and_nothing_in_them_orders_a_terminal(config: str) -> None:
    listed = run("deadletters", "list", "--config", config)
    assert len(listed.stdout.splitlines()) == 2 and "\x1b" not in listed.stdout
    one = run("deadletters", "show", name(3), "--config", config)
    assert one.exit_code == 0 and "\x1b" not in one.stdout and "not json" in one.stdout
    whole = json.loads(run("deadletters", "show", name(3).upper(), "--config", config, "-o", "json").stdout)
    assert whole["payload"] == "\x1b[2J\nnot json"
    assert run("deadletters", "show", "00", "--config", config).exit_code == 1
    some = run("deadletters", "list", "--config", config, "-o", "json", "--limit", "1")
    assert [each["id"] for each in json.loads(some.stdout)] == [name(1)]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--code", "not_json"], 1),
        (["--code", "misfit"], 0),
        (["--code", "unknown"], 0),
        (["--topic", TOPIC], 2),
        (["--topic", "a/b"], 0),
        (["--since", "2026-11-20T23:59:52Z"], 1),
        (["--until", "2026-11-20T23:59:52Z"], 1),
        (["--state", "repaired"], 0),
        (["--state", "all"], 2),
    ],
)
def test_they_are_selected(config: str, words: list[str], count: int) -> None:
    listed = run("deadletters", "list", "--config", config, "-o", "jsonl", *words)
    assert (listed.exit_code, len(listed.stdout.splitlines())) == (0, count), listed.output


@pytest.mark.slow
def test_exported_edited_and_repaired(config: str, world: World, tmp_path: Path) -> None:
    """A part of them; what is left is a letter still, and the exit code says so only where it was meant."""
    file = tmp_path / "letters.jsonl"
    exported = run("deadletters", "export", str(file), "--config", config)
    assert exported.exit_code == 0, exported.output
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [sorted({"payload", "payload_base64"} & set(line)) for line in lines] == [["payload_base64"], ["payload"]]
    assert [path.name for path in tmp_path.glob(".letters*")] == []
    lines[1]["payload"] = json.loads(payload(3))
    file.write_text(json.dumps(lines[1]))
    words = ["repair", "--config", config, "--edited", str(file)]
    refused = run(*words)
    assert refused.exit_code == 2 and "--yes" in refused.stderr
    assert "1 would be repaired" in run(*words, "--dry-run").stdout
    assert world.marks() == {}
    done = run(*words, "--yes")
    assert done.exit_code == 0, done.output
    assert (world.rows()[name(3)], world.marks()) == (1, {name(3): 1})
    again = run("repair", "--config", config, "--yes", "-o", "json")
    assert again.exit_code == 1
    [facts] = json.loads(again.stdout)["pipelines"]
    assert (facts["letters"], facts["still"]) == (1, {"not_utf8": 1})
    assert len(run("deadletters", "list", "--config", config, "--state", "repaired").stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--with", "mend"], "FILE.py:NAME"),
        (["--with", "absent.py:mend"], "absent.py"),
        (["--with", "json:dumpsy"], "dumpsy"),
        (["--edited", "EDITED"], "line 2"),
        (["--edited", "EDITED", "--with", "json:dumps"], "exclude each other"),
        (["--since", "0" * 40], "a time"),
        (["--code", "msfit"], "there is no code 'msfit'; did you mean misfit?"),
        (["--code", "7"], "the codes are not_utf8, not_json,"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_done(
    config: str, words: list[str], reason: str, tmp_path: Path
) -> None:
    edited = tmp_path / "edited.jsonl"
    edited.write_text(json.dumps({"topic": TOPIC, "id": name(3), "payload": "{}"}) + "\nnonsense\n")
    refused = run("repair", "--config", config, "--yes", *[str(edited) if word == "EDITED" else word for word in words])
    assert refused.exit_code == 2, refused.output
    assert reason in refused.stderr and "Traceback" not in refused.output


def test_an_export_keeps_a_file_that_may_have_been_edited(config: str, tmp_path: Path) -> None:
    file = tmp_path / "letters.jsonl"
    file.write_text("edited")
    refused = run("deadletters", "export", str(file), "--config", config)
    assert (refused.exit_code, file.read_text()) == (2, "edited"), refused.output
    assert f"{file} already exists: name another file, or use --force" in refused.stderr
    assert run("deadletters", "export", str(file), "--config", config, "--force").exit_code == 0
    assert len(file.read_text().splitlines()) == 2


def test_a_table_that_is_not_there_is_a_sentence(config: str, tmp_path: Path) -> None:
    for words in (["deadletters"], ["deadletters", "list"], ["repair", "--yes"]):
        text = Path(config).read_text().replace(f"{tmp_path}/rows", f"{tmp_path}/absent")
        other = tmp_path / "other.toml"
        other.write_text(text)
        refused = run(*words, "--config", str(other))
        assert (refused.exit_code, "there is no table here" in refused.stderr) == (1, True), refused.output
