"""Commands that ask the messaging service, on a real one, with their output kept beside: golden/messaging/NAME.txt."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support import golden
from tests.support.topics.messaging import Topics

from fairlead_cli.main import build
from fairlead_cli.text import quantities
from fairlead_messaging.client.io.sync_client import Client

FOLDER = Path(__file__).parent / "golden" / "messaging"
NOW = datetime.datetime(2020, 1, 1, 12, 0, tzinfo=datetime.UTC)
COMMANDS = {
    "topics": "topics",
    "topics-all-json": "topics -A -o json",
    "topics-wide": "topics -o wide",
    "topics-none": "topics list -n empty",
    "tail": "tail orders",
    "tail-missing": "tail nothing",
    "ingest": "ingest",
    "ingest-name": "ingest jobs -o name",
    "top-topics": "top topics --seconds 0.1",
}


def test_they_print_what_they_printed(messaging: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output, standard error and exit code; ids and times of messages aside."""
    monkeypatch.setenv("FAIRLEAD_MESSAGING_URL", messaging.url)
    monkeypatch.setattr(quantities, "utc", lambda: NOW)
    with Client(messaging.url) as client:
        client.create_topic("default", "orders")
        client.create_topic("default", "telemetry")
        client.publish("default", "orders", [b'{"order": 1}', b'{"order": 2}'])
        newest = client.poll("default", "orders").messages[-1].id
        client.note_reader("default", "orders", "sales", position=newest)
    for name, command in COMMANDS.items():
        done = CliRunner().invoke(build(), shlex.split(command), prog_name="kubectl fairlead")
        text = golden.transcript(command, done.exit_code, done.stdout, done.stderr)
        golden.check(FOLDER / f"{name}.txt", text)


def test_no_golden_text_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(COMMANDS)
