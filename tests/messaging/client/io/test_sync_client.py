"""What only the synchronous client can: fork, pickle, threads; more in the conformance suite."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.retry import PATIENT
from fairlead_wire.errors import LocalError

pytestmark = pytest.mark.process

TOPIC = "default/bulk"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    with MessagingService(tmp_path_factory.mktemp("service")) as running:
        running.create(TOPIC)
        running.publish(TOPIC, [b"%d" % number for number in range(10)])
        yield running


def test_a_restarted_service_is_met_with_a_new_connection(tmp_path: Path) -> None:
    """A kept connection that broke meanwhile is no failure, not even for what must not be sent twice."""
    with MessagingService(tmp_path) as service, Client(service.url) as asking:
        service.create(TOPIC)
        asking.publish("default", "bulk", [b"1"])
        service.kill()
        service.start()
        asking.publish("default", "bulk", [b"2"])
        assert [message.payload for message in asking.messages("default", "bulk")] == [b"1", b"2"]


def test_a_forked_child_makes_its_own_connections(service: MessagingService) -> None:
    """Parent and child ask at once and none gets the other's answer."""
    with Client(service.url) as asking:
        asking.topics("default")
        child = os.fork()
        if not child:
            try:
                right = all(len(asking.poll("default", "bulk", limit=1).messages) == 1 for _ in range(50))
            except BaseException:  # noqa: BLE001 - a child must not go on as another test runner
                right = False
            os._exit(0 if right else 1)
        assert all(len(asking.poll("default", "bulk", limit=2).messages) == 2 for _ in range(50))
        assert os.waitpid(child, 0)[1] == 0


def test_a_pickled_client_is_one_with_the_same_settings(service: MessagingService) -> None:
    """As Spark sends it to its workers."""
    with Client(service.url, retries=PATIENT, timeout_seconds=7.0) as asking:
        asking.topics("default")
        with pickle.loads(pickle.dumps(asking)) as there:
            assert there.topics("default") == asking.topics("default")
            assert (there._retries, there._timeout_seconds) == (PATIENT, 7.0)


def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """Which one is wrong is in the message."""
    with pytest.raises(LocalError, match=str(tmp_path)):
        Tls(ca=str(tmp_path / "ca"), cert=str(tmp_path / "cert"), key=str(tmp_path / "key")).client()
