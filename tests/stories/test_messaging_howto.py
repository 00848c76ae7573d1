"""docs/howto/use-the-messaging-client.md does what it says: its blocks run, in order, against the real service."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.io.sync_client import Client

pytestmark = pytest.mark.process

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "use-the-messaging-client.md"
ADDRESS = "http://127.0.0.1:11015"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the page's program prints, and where its service was."""
    folder = tmp_path_factory.mktemp("howto")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 5
    with MessagingService(folder / "service") as service:
        program = folder / "program.py"
        text = "\n".join(blocks)
        assert ADDRESS in text
        program.write_text(text.replace(ADDRESS, service.url) + "\nstore([b'row'])\n")
        done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        with Client(service.url) as client:
            stored = [message.payload for message in client.messages("shop", "orders")]
            [reader] = client.readers("shop", "orders")
        expected = f"{len(stored)} {stored[-1].decode()} {reader.name} {reader.lag_messages}"
    return done.stdout, expected


def test_the_page_prints_what_it_says(printed: tuple[str, str]) -> None:
    """Orders read, the one that came later, visits refused for want of a topic, a missing topic by its own error."""
    lines = printed[0].splitlines()
    assert [line.split(" ", 1)[1] for line in lines[:2]] == ["b'{\"order\": 1}'", "b'{\"order\": 2}'"]
    assert lines[2] == "b'{\"order\": 3}'"
    assert lines[3].startswith("1 visits lost: ")
    assert lines[4:] == ["0 1", "create it, or correct the name"]


def test_the_page_stores_what_it_says(printed: tuple[str, str]) -> None:
    """Three orders, two of a producer (once), one of a transaction, one row; and its reader's lag is known."""
    assert printed[1] == "7 row printer 4"


def test_every_command_of_the_page_exists() -> None:
    """As the command line's own help lists them."""
    words = re.findall(r"^fairlead topics (\w+)(?: (list))?", PAGE.read_text(), re.MULTILINE)
    assert len(words) > 3
    for word, more in words:
        command = [sys.executable, "-m", "fairlead_cli.main", "topics", word, *([more] if more else []), "--help"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
