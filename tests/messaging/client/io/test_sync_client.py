"""What only the synchronous client can: fork, pickle, threads; more in the conformance suite."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.errors import GenerationChanged, TopicMissing
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_messaging.client.retry import PATIENT
from fairlead_wire.errors import Permanent, RemoteError

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
    with Client(service.url, retries=PATIENT, timeout_seconds=7.0) as asking:
        asking.topics("default")
        with pickle.loads(pickle.dumps(asking)) as there:
            assert there.topics("default") == asking.topics("default")
            assert (there._retries, there._timeout_seconds) == (PATIENT, 7.0)


# --- The bulk readers' client on the real service.


@pytest.fixture
def client(service: MessagingService) -> Iterator[BulkClient]:
    with BulkClient(service.url) as asking:
        yield asking


def test_a_topic_is_planned_and_read_in_pages(client: BulkClient) -> None:
    plan = client.plan(TOPIC, after="", splits=2)
    assert plan.rows == 10
    assert [part.after for part in plan.ranges[1:]] == [part.upto for part in plan.ranges[:-1]]
    after, payloads = "", []
    while page := client.poll(TOPIC, after=after, upto=plan.upto, limit_rows=4, generation=plan.generation):
        if not page.table.num_rows:
            break
        assert page.table.num_rows <= 4
        payloads += page.table["payload"].to_pylist()
        after = page.next_position
    assert payloads == [b"%d" % number for number in range(10)]
    assert page.service == plan.service


def test_offsets_say_where_a_topic_stands(client: BulkClient) -> None:
    latest = client.offsets(TOPIC, "latest")
    assert client.plan(TOPIC, after=latest.stable or "").rows == 0
    later = client.offsets(TOPIC, 4_000_000_000_000)
    assert client.plan(TOPIC, after=later.position or "").rows == 0
    assert client.offsets(TOPIC, "earliest").service == latest.service


def test_a_noted_position_is_seen_by_the_service(client: BulkClient, service: MessagingService) -> None:
    plan = client.plan(TOPIC, after="", limit_rows=4)
    client.note_reader(TOPIC, "r", position=plan.upto or "", generation=plan.generation)
    assert [(each["name"], each["lag_messages"]) for each in service.readers(TOPIC)] == [("r", 6)]


def test_facts_come_with_the_refusal(client: BulkClient, service: MessagingService) -> None:
    with pytest.raises(TopicMissing):
        client.plan("default/none", after="")
    with pytest.raises(GenerationChanged) as changed:
        client.plan(TOPIC, after="", generation=99)
    assert changed.value.generation == client.plan(TOPIC, after="").generation
    with pytest.raises(Permanent):
        client.plan(TOPIC, after="not hex")


def test_an_answer_that_is_no_arrow_stream_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with BulkClient(url, timeout_seconds=60) as asking, pytest.raises(RemoteError):
            asking.poll(TOPIC, after="")
        thread.join()
