"""`fairlead messaging dump`: a stopped store, row by row, whatever state it is in."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.topics.messaging_core import Core, publish

from fairlead_cli.commands.messaging import dump as command
from fairlead_cli.main import build
from fairlead_messaging.app import open_store
from fairlead_messaging.server.dump import row_key
from fairlead_messaging.server.io.stores.sqlite_kv import FILE_NAME
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.transactions.commands import Start

Fill = Callable[[Core], None]


def stopped(folder: Path, kind: str, fill: Fill) -> None:
    """A store as a service left it."""
    kv = open_store(MessagingSettings.model_validate({"security": "insecure", "data_dir": str(folder), "store": kind}))
    fill(Core(kv))
    kv.close()


def dump(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(build(), ["messaging", "dump", "--data-dir", str(folder), *more])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def some(core: Core) -> None:
    core.create("t")
    core.do(publish("t", "a", "bb"))
    core.do(publish("t", "ccc", pointer=core.do(Start(timeout_seconds=600)).transaction.pointer))


@pytest.mark.parametrize("kind", ["rocksdb", "sqlite"])
def test_tables_are_shown_filtered_and_counted(tmp_path: Path, kind: str) -> None:
    stopped(tmp_path, kind, some)
    messages = dump(tmp_path, "--table", "messages", "-o", "jsonl")
    assert messages.exit_code == 0
    assert [(line["topic"], line["state"], line["bytes"]) for line in lines(messages)] == [
        ("n/t", "visible", 1), ("n/t", "visible", 2), ("n/t", "undecided", 3),
    ]  # fmt: skip
    pointer = lines(messages)[-1]["transaction"]
    assert [line["table"] for line in lines(dump(tmp_path, "--transaction", str(pointer)))] == [
        "messages", "transactions",
    ]  # fmt: skip
    [only] = lines(dump(tmp_path, "--table", "messages", "--topic", "n/t", "--transaction", str(pointer), "--bodies"))
    assert base64.b64decode(only["body"]) == b"ccc"
    [cut] = lines(dump(tmp_path, "--table", "messages", "--transaction", str(pointer), "--bodies", "1", "--keys"))
    assert (base64.b64decode(cut["body"]), cut["body_cut"], cut["key"][:2]) == (b"c", True, keys.MESSAGE.hex())
    counted = lines(dump(tmp_path, "--count", "--table", "messages", "--table", "topics"))
    assert [(each["table"], each["rows"], each["undecodable"]) for each in counted] == [
        ("messages", 3, 0), ("topics", 1, 0),
    ]  # fmt: skip
    message_id = lines(messages)[1]["id"]
    assert len(lines(dump(tmp_path, "--table", "messages", "--from", message_id))) == 3
    assert lines(dump(tmp_path, "--table", "messages", "--until", "1970-01-01")) == []
    text = dump(tmp_path, "--table", "topics", "-o", "text").stdout
    assert text == "topics         topic=n/t  generation=1  state=living  ttl=1000  properties={}\n"


def test_what_is_damaged_is_a_line_and_the_exit_code(tmp_path: Path) -> None:
    def damaged(core: Core) -> None:
        some(core)
        batch = Batch()
        batch.put(keys.table(keys.MESSAGE, core.topic("t")) + bytes(10), b"\xff")
        core.kv.apply(batch)

    stopped(tmp_path, "rocksdb", damaged)
    result = dump(tmp_path, "--table", "messages")
    assert (result.exit_code, len(lines(result))) == (1, 4)
    assert lines(result)[0]["undecodable"] == "no row has the flags 255"
    assert result.stderr == "fairlead messaging dump: rows that cannot be decoded: 1\n"
    counted = dump(tmp_path, "--table", "messages", "--count")
    assert (counted.exit_code, lines(counted)[0]["undecodable"]) == (1, 1)


@pytest.mark.slow
def test_a_damaged_file_is_read_as_far_as_its_engine_can(tmp_path: Path) -> None:
    """A page of the file is overwritten: what lies there is said to be unreadable, the other tables are shown."""

    def much(core: Core) -> None:
        some(core)
        for _ in range(20):
            core.do(publish("t", *["x" * 100] * 200))

    stopped(tmp_path, "sqlite", much)
    whole = lines(dump(tmp_path))
    file = tmp_path / FILE_NAME
    page = 4096
    with file.open("r+b") as opened:
        pages = os.fstat(opened.fileno()).st_size // page
        opened.seek(pages // 2 * page)
        opened.write(b"\xff" * page)
    result = dump(tmp_path)
    assert result.exit_code == 1
    assert any("sqlite read" in line.get("undecodable", "") for line in lines(result))
    assert {line["table"] for line in lines(result)} >= {"topics", "transactions", "service"}
    assert 0 < len(lines(result)) < len(whole)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["rocksdb", "sqlite"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path, kind: str) -> None:
    def much(core: Core) -> None:
        core.create("t")
        core.do(publish("t", *["x"] * 3000))

    stopped(tmp_path, kind, much)
    command = [sys.executable, "-m", "fairlead_cli.main", "messaging", "dump", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        assert json.loads(running.stdout.readline())["table"] == "topics"
        running.stdout.close()
        assert running.stderr.read() == b""


def test_a_store_in_use_is_refused_politely(tmp_path: Path) -> None:
    settings = MessagingSettings.model_validate({"security": "insecure", "data_dir": str(tmp_path), "store": "sqlite"})
    kv = open_store(settings)
    try:
        result = dump(tmp_path)
        words = ["messaging", "backup", "--data-dir", str(tmp_path), "--out", str(tmp_path / "b")]
        backup = CliRunner().invoke(build(), words)
    finally:
        kv.close()
    assert (backup.exit_code, "running service use --url" in backup.stderr) == (1, True)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"in use by process {os.getpid()} since" in result.stderr
    assert "stop that service, or use a copy" in result.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "holds no store"),
        (["--store", "sqlite"], "holds no sqlite store"),
        (["--table", "paper"], "is not one of"),
        (["--bodies", "many"], "--bodies"),
        (["--from", "z" * 40], "is not a message id"),
        (["--transaction", "0"], "--transaction"),
    ],
)
def test_wrong_use_is_exit_2_with_a_sentence(tmp_path: Path, more: list[str], said: str) -> None:
    result = dump(tmp_path, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_the_tables_are_those_of_the_store() -> None:
    assert tuple(row_key.TABLES) == command.TABLES
