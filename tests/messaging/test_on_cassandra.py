"""The service on a real Cassandra that wants TLS and a login: kills, two instances at once, mistakes of setting up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority
from tests.support.processes import wait_until
from tests.support.topics.cassandra import Cassandra
from tests.support.topics.cassandra_store import model_of
from tests.support.topics.messaging_program import PROGRAM, MessagingProgram

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.server.io.stores.cassandra.session import CassandraSession
from fairlead_messaging.server.settings import CassandraModel
from fairlead_wire.errors import FairleadError

pytestmark = [pytest.mark.process, pytest.mark.verify]

TOPIC = ("default", "orders")
USER, PASSWORD = "messaging", "not a secret: @/%"
SECONDS = 120.0


class Site:
    """One node, and a user who may use one keyspace after the other."""

    def __init__(self, cassandra: Cassandra, folder: Path, authority: Authority) -> None:
        self.cassandra = cassandra
        self._folder = folder
        self._authority = authority
        self._made = 0

    def keyspace(self, *, granted: bool = True) -> str:
        """With the rights that the pages say."""
        self._made += 1
        name = self.cassandra.keyspace(f"site{self._made}")
        if granted:
            with self.cassandra.asked() as session:
                session.execute(f"GRANT CREATE ON KEYSPACE {name} TO {USER}")
                session.execute(f"GRANT SELECT ON KEYSPACE {name} TO {USER}")
                session.execute(f"GRANT MODIFY ON KEYSPACE {name} TO {USER}")
        return name

    def settings(self, keyspace: str) -> str:
        return self.cassandra.settings(keyspace, **self._login())

    def model(self, keyspace: str, **more: Any) -> CassandraModel:
        return model_of(self.cassandra, keyspace, **{**self._login(), **more})

    def _login(self) -> dict[str, Any]:
        password = self._folder / "password"
        password.write_text(PASSWORD + "\n")
        return {"username": USER, "password_file": str(password), "tls_ca": str(self._authority.certificate)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("cassandra")
    (folder / "pki").mkdir()
    authority = Authority(folder / "pki")
    with Cassandra(folder / "nodes", authority=authority) as cassandra:
        with cassandra.asked() as session:
            session.execute(f"CREATE ROLE {USER} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true")
            session.execute(f"GRANT SELECT ON system_views.settings TO {USER}")
        yield Site(cassandra, folder, authority)


class Publisher:
    """Publishes numbered messages, each until it is answered; one producer, so each is to be there once."""

    def __init__(self, url: str, name: str = "p") -> None:
        self._url, self._name = url, name
        self.answered = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, more: int) -> None:
        """So many answers from now on."""
        goal = self.answered + more
        wait_until("messages are stored", lambda: self.answered >= goal, seconds=SECONDS)

    def finish(self) -> list[bytes]:
        """What was answered."""
        self._stop.set()
        self._thread.join()
        return [self._payload(number) for number in range(self.answered)]

    def _payload(self, number: int) -> bytes:
        return f"{self._name}-{number}".encode().ljust(300)

    def _run(self) -> None:
        while not self._stop.is_set():
            number = self.answered
            with Client(self._url, timeout_seconds=30) as client:
                try:
                    producer = Producer(id=self._name, epoch=1, sequence=number)
                    client.publish(*TOPIC, [self._payload(number)], producer=producer)
                except FairleadError:
                    self._stop.wait(0.05)
                else:
                    self.answered += 1


def payloads(program: MessagingProgram) -> list[bytes]:
    with Client(program.url) as client:
        return [each.payload for each in client.messages(*TOPIC)]


def create(program: MessagingProgram) -> None:
    with Client(program.url) as client:
        client.create_topic(*TOPIC, {})


def ready(program: MessagingProgram) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{program.health_port}/readyz", timeout=30) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def metric(program: MessagingProgram, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{program.health_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"fairlead_messaging_{name} "))


def refusal(folder: Path, settings: str) -> str:
    """What a service says that does not start with these."""
    folder.mkdir()
    config = folder / "messaging.toml"
    config.write_text(f'security = "insecure"\nhttp_listen = "127.0.0.1:0"\n{settings}')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "messaging", "run", "--config", str(config)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert PASSWORD not in done.stderr
    return done.stderr


def test_kills_of_service_and_node_lose_nothing(site: Site, tmp_path: Path) -> None:
    """Every answered message is there once and in order; the service needs no restart for the node's."""
    with MessagingProgram(tmp_path, more=site.settings(site.keyspace())) as program:
        create(program)
        publisher = Publisher(program.url)
        publisher.wait_for(30)
        program.kill()
        program.start()
        publisher.wait_for(30)
        (node,) = site.cassandra.nodes
        node.kill()
        wait_until("it says that it is not ready", lambda: not ready(program), seconds=SECONDS)
        node.start()
        publisher.wait_for(30)
        wait_until("it is ready again", lambda: ready(program), seconds=SECONDS)
        expected = publisher.finish()
        found = payloads(program)
        # The last one may be stored and its answer lost.
        assert found[: len(expected)] == expected and len(found) <= len(expected) + 1
        assert metric(program, "cassandra_unknown_outcomes_total") >= 1
        assert program.stop() == 0


def test_of_two_instances_one_writes(site: Site, tmp_path: Path) -> None:
    """The second ends with the first's name; one that was paused while another took over writes and answers nothing."""
    keyspace = site.keyspace()
    for each in ("first", "second"):
        (tmp_path / each).mkdir()
    with MessagingProgram(tmp_path / "first", more=site.settings(keyspace)) as first:
        create(first)
        publisher = Publisher(first.url)
        said = refusal(tmp_path / "third", site.settings(keyspace))
        assert f"process {first.running.pid} " in said and "in use" in said
        publisher.wait_for(10)
        os.kill(first.running.pid, signal.SIGSTOP)  # most likely with a write under way
        with MessagingProgram(tmp_path / "second", more=site.settings(keyspace)) as second:
            with Client(second.url) as client:
                client.publish(*TOPIC, [b"of the second"])
            held = payloads(second)
            answered = publisher.answered
            os.kill(first.running.pid, signal.SIGCONT)
            wait_until("the first knows", lambda: metric(first, "cassandra_taken_over_total") == 1, seconds=SECONDS)
            with Client(first.url) as client, pytest.raises(FairleadError):
                client.publish(*TOPIC, [b"of a writer of yesterday"])
            with Client(first.url) as client, pytest.raises(FairleadError):
                list(client.messages(*TOPIC))
            assert not ready(first)
            assert payloads(second) == held and publisher.answered <= answered + 1
            assert second.stop() == 0
        publisher.wait_for(10)  # the first is the owner again, by itself
        expected = publisher.finish()
        found = payloads(first)
        assert b"of a writer of yesterday" not in found and b"of the second" in found
        found.remove(b"of the second")
        assert found[: len(expected)] == expected and len(found) <= len(expected) + 1


def test_mistakes_in_the_settings_are_reported(site: Site, tmp_path: Path) -> None:
    """Wrong password, data center, rights, authority, port: each with what to do; never the password."""
    wrong = tmp_path / "wrong"
    wrong.write_text("another password")
    keyspace = site.keyspace(granted=False)
    cases: dict[str, dict[str, Any]] = {
        "refused the login of user messaging": {"password_file": str(wrong)},
        "password_file": {"password_file": str(tmp_path / "absent")},
        "requires a login": {"username": None, "password_file": None},
        "the cluster has datacenter1": {"datacenter": "mars"},
        f"GRANT CREATE, SELECT, MODIFY ON KEYSPACE {keyspace} TO messaging": {},
        "TLS failed": {"tls_ca": "/etc/ssl/certs/ca-certificates.crt"},
        "none of 127.0.0.1:9 can be used": {"contact_points": ["127.0.0.1:9"]},
    }
    for words, changes in cases.items():
        with pytest.raises(StorageError) as raised:
            CassandraSession(site.model(keyspace, **changes), lambda operation, seconds: None)
        assert words in str(raised.value)
        assert PASSWORD not in str(raised.value) and "another password" not in str(raised.value)


def test_a_keyspace_that_forgets_is_refused(site: Site) -> None:
    keyspace = site.keyspace()
    with site.cassandra.asked() as session:
        session.execute(f"ALTER KEYSPACE {keyspace} WITH durable_writes = false")
    with pytest.raises(StorageError, match=r"ALTER KEYSPACE .* WITH durable_writes = true"):
        CassandraSession(site.model(keyspace), lambda operation, seconds: None)


def test_how_nodes_sync_may_be_asked_with_the_rights_of_the_page(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    session = CassandraSession(site.model(site.keyspace()), lambda operation, seconds: None)
    found = session.execute("read", "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'")
    session.close()
    assert found == [("batch",)] and "commitlog_sync_unknown" not in caplog.messages
