"""Messaging's service, client and store one version apart, in both directions: real programs of both versions.

service A ◀── client B publishes            then, on the same disk,            service B ◀── client A reads and adds
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import older_version
from tests.support.older_version import ROOT
from tests.support.topics.messaging_program import MessagingProgram

pytestmark = [pytest.mark.process, pytest.mark.verify]

CLIENT = Path(__file__).parent / "messaging_client.py"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"older": older_version.unpack(tmp_path_factory.mktemp("older")), "newer": ROOT}


def client(tree: Path, url: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(CLIENT), url, *arguments],
        env=older_version.environ(tree), stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.parametrize("store", ["rocksdb", "sqlite"])
@pytest.mark.parametrize(("first", "second"), [("older", "newer"), ("newer", "older")])
def test_services_clients_and_stores_one_apart(
    first: str, second: str, store: str, trees: dict[str, Path], tmp_path: Path
) -> None:
    program = MessagingProgram(tmp_path, more=f'store = "{store}"')
    program.environ = older_version.environ(trees[first])
    with program:
        assert client(trees[second], program.url, "publish", "one", "two") == ["one", "two"]
        assert program.stop() == 0
        program.environ = older_version.environ(trees[second])
        program.start()
        assert client(trees[first], program.url, "read") == ["one", "two"]
        assert client(trees[first], program.url, "publish", "three") == ["one", "two", "three"]
        assert program.stop() == 0
