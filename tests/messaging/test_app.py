"""The program: settings, signals, kill -9."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.faults import fault_messaging, fault_subscriptions
from tests.support.processes import wait_until
from tests.support.topics.messaging_program import PROGRAM, MessagingProgram
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.app import open_store
from fairlead_messaging.client import errors
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("surprise = 1", "surprise: unknown key"),
        ('http_listen = "0.0.0.0:1"\nsecurity = "insecure"', "http_listen: "),
        ('security = "mtls"', "tls_ca: required"),
        ('security = "insecure"\n[cleanup]\ninterval_seconds = 0', "cleanup.interval_seconds: "),
        ("not toml", "not TOML"),
    ],
)
def test_bad_settings_are_exit_2(tmp_path: Path, text: str, reason: str) -> None:
    config = tmp_path / "messaging.toml"
    config.write_text(text)
    command = [sys.executable, "-c", PROGRAM, "messaging", "run", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fairlead messaging: {config}: ")
    assert reason in done.stderr


@pytest.mark.process
def test_sigterm_drains_and_exits_0(tmp_path: Path) -> None:
    program = MessagingProgram(tmp_path, more='system_topics = ["audit"]')
    with program:
        for path in ("healthz", "readyz", "metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{program.health_port}/{path}", timeout=60) as answer:
                assert answer.status == 200
        assert program.stop() == 0


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.timeout(400)  # four starts of a program, however busy the machine is
def test_kill_9_loses_nothing_acknowledged() -> None:
    """A short dose of the long fault test: plain, idempotent and transactional producers."""
    count = fault_messaging.run(3, 7, lambda text: None)
    assert count["acknowledged"] > 0
    assert (count["lost"], count["duplicated"], count["untrue"]) == (0, 0, 0)


def test_stores_are_chosen_by_name(tmp_path: Path) -> None:
    for store in ("rocksdb", "sqlite"):
        kv = open_store(MessagingSettings(store=store, data_dir=str(tmp_path / store), security="insecure"))
        assert kv.get(b"k") is None
        kv.close()
    assert isinstance(open_store(MessagingSettings(store="memory", security="insecure")), MemoryKV)


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("first", "second"), [("sqlite", "sqlite"), ("rocksdb", "rocksdb"), ("sqlite", "rocksdb")])
def test_a_data_dir_has_one_process(tmp_path: Path, first: str, second: str) -> None:
    """The second ends at once and names the first, whatever their stores; kill -9 leaves the folder free."""
    with MessagingProgram(tmp_path, more=f'store = "{first}"') as program:
        other = tmp_path / "other.toml"
        other.write_text(
            f'http_listen = "127.0.0.1:0"\ndata_dir = "{tmp_path / "data"}"\n'
            f'security = "insecure"\nstore = "{second}"\n'
        )
        command = [sys.executable, "-c", PROGRAM, "messaging", "run", "--config", str(other)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        [line] = [json.loads(each) for each in done.stderr.splitlines() if "cannot_serve" in each]
        assert f"is in use by process {program.running.pid} since 20" in line["reason"]
        program.kill()
        program.start()
        assert program.stop() == 0


@pytest.mark.process
@pytest.mark.timeout(120)
def test_garbled_transactions_stop_nothing_else(tmp_path: Path) -> None:
    """Publishing and reading go on, also over a restart; 503 says why and what to do; mended, it recovers by itself."""
    with MessagingService(tmp_path, store="sqlite") as service, Client(service.url, timeout_seconds=10.0) as client:
        client.create_topic("default", "t")
        started = client.start_transaction(600)
        client.publish_in(started.transactionWritePointer, "default", "t", [b"inside"])
        file = sqlite3.connect(tmp_path / "data" / "messaging.sqlite", isolation_level=None)
        file.execute("PRAGMA busy_timeout=10000")
        key = b"O" + started.transactionWritePointer.to_bytes(8, "big")
        [right] = file.execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()
        file.execute("UPDATE kv SET v = ? WHERE k = ?", (b"\xff garbled", key))
        with pytest.raises(errors.Busy) as refused:
            client.poll("default", "t", read_committed=True)
        assert (refused.value.code, refused.value.status) == ("transactions_unavailable", 503)
        service.kill()
        service.start()
        for ask in (lambda: client.start_transaction(5), lambda: client.poll("default", "t", read_committed=True)):
            with pytest.raises(errors.Busy, match="cannot be read") as refused:
                ask()
            assert (refused.value.code, refused.value.in_doubt) == ("transactions_unavailable", False)
            assert "without transactions still work" in refused.value.reason and "backup" in refused.value.reason
        client.publish("default", "t", [b"plain"])
        assert [each.payload for each in client.poll("default", "t").messages] == [b"inside", b"plain"]
        ready = _get(f"{service.url}/readyz")
        assert '"status":"ready"' in ready and "unavailable: the record of open transaction" in ready
        assert "fairlead_messaging_transactions_unavailable 1.0" in _get(f"{service.url}/metrics")
        file.execute("UPDATE kv SET v = ? WHERE k = ?", (right, key))
        file.close()
        wait_until("transactions recover", lambda: "transactions" not in _get(f"{service.url}/readyz"), seconds=120)
        client.finish_transaction(started.transactionWritePointer, "commit")
        found = client.poll("default", "t", read_committed=True)
        assert [each.payload for each in found.messages] == [b"inside", b"plain"]
        assert "fairlead_messaging_transactions_unavailable 0.0" in _get(f"{service.url}/metrics")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


SEED = 20261122


@pytest.mark.faults
def test_messaging_killed_while_it_pushes() -> None:
    """kill -9, an endpoint that fails, a dead letter topic that comes and goes: each message is counted once."""
    count = fault_subscriptions.run(4, SEED, print)
    assert count["acknowledged"] > 0, count
    assert count["lost"] == count["duplicated"] == count["untrue"] == 0, count
