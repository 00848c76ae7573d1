"""Noticing lost and additional executors, and deleting the Pods that an earlier driver left behind."""

from __future__ import annotations

import datetime
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.support.joining.pki import Authority
from tests.support.processes import free_ports

from fairlead_ingest import errors
from fairlead_ingest.io.spark import executors
from fairlead_ingest.io.spark.connect import SparkAway
from fairlead_ingest.io.spark.executors import (
    GONE,
    GONE_AT_START,
    PRESENCE_INTERVAL,
    WATCH_INTERVAL,
    ExecutorPresence,
    ExecutorWatcher,
)

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def session(master: str = "spark://h:7077", *, executors: int = 1, dynamic: str = "false", cores: int = 1) -> Any:
    tracker = SimpleNamespace(getExecutorInfos=lambda: ["driver"] * (1 + executors))
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
    context = SimpleNamespace(master=master, defaultParallelism=cores, _jsc=jvm)
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=lambda *_: dynamic))


def present(watched: Any) -> None:
    presence = ExecutorPresence(watched)
    for number in range(GONE // PRESENCE_INTERVAL + 2):
        presence.check(NOW + number * PRESENCE_INTERVAL)


def test_a_master_that_does_not_know_the_application_is_noticed():
    with pytest.raises(SparkAway, match="no executor for 60 s"):
        present(session(executors=0))


def test_executors_that_are_there_or_may_come_and_go_are_no_reason():
    """Kubernetes gives others by itself; with dynamic allocation an idle job has none."""
    present(session())
    present(session(executors=0, dynamic="true"))
    present(session("k8s://https://h:6443", executors=0))
    present(session("local[2]", executors=0))


def test_executors_that_come_back_in_time_are_enough():
    watched = session(executors=0)
    presence = ExecutorPresence(watched)
    presence.check(NOW)
    presence.check(NOW + GONE / 2)
    watched.sparkContext._jsc = session().sparkContext._jsc
    presence.check(NOW + GONE)
    watched.sparkContext._jsc = session(executors=0).sparkContext._jsc
    presence.check(NOW + GONE + PRESENCE_INTERVAL)
    presence.check(NOW + GONE + 2 * PRESENCE_INTERVAL)


def test_before_the_first_batch_it_is_waited_for_longer():
    presence = ExecutorPresence(session(executors=0), GONE_AT_START)
    for number in range(GONE_AT_START // PRESENCE_INTERVAL):
        presence.check(NOW + number * PRESENCE_INTERVAL)
    with pytest.raises(SparkAway, match="no executor for 300 s"):
        presence.check(NOW + GONE_AT_START)


def looks(watcher: ExecutorWatcher, count: int) -> list[int]:
    return [watcher.have_come(NOW + number * WATCH_INTERVAL) for number in range(count)]


def test_more_executors_are_noticed_at_the_second_look():
    watcher = ExecutorWatcher(session(cores=4))
    watcher.start(2)
    assert looks(watcher, 4) == [0, 0, 4, 4]
    watcher.start(4)
    assert looks(watcher, 4) == [0, 0, 0, 0]


@pytest.mark.parametrize(("master", "cores", "counted"), [("spark://h:7077", 2, 4), ("local[8]", 8, 2)])
def test_fewer_executors_and_one_machine_need_nothing(master, cores, counted):
    watcher = ExecutorWatcher(session(master, cores=cores))
    watcher.start(counted)
    assert looks(watcher, 4) == [0, 0, 0, 0]


CONF = {executors.DRIVER: "driver-0", executors.NAMESPACE: "plant"}


def pod(name: str, *owners: tuple[str, str]) -> dict[str, object]:
    references = [{"kind": kind, "name": owner} for kind, owner in owners]
    return {"metadata": {"name": name, **({"ownerReferences": references} if references else {})}}


PODS = {
    "items": [
        pod("mine", ("Pod", "driver-0")),
        pod("gone", ("Pod", "driver-0")),
        pod("anothers", ("Pod", "driver-1")),
        pod("replicas", ("ReplicaSet", "driver-0")),
        pod("free"),
    ]
}


class ApiServer(http.server.BaseHTTPRequestHandler):
    """Answers as an API server with these Pods; one of them goes before it is deleted."""

    asked: ClassVar[list[tuple[str, str, str]]]
    status = 200

    def do_GET(self) -> None:
        self._answer(self.status, PODS)

    def do_DELETE(self) -> None:
        self._answer(404 if self.path.endswith("/gone") else 200, {})

    def _answer(self, status: int, body: object) -> None:
        self.asked.append((self.command, self.path, self.headers["Authorization"]))
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "cluster")


@pytest.fixture
def account(authority: Authority, tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("who-I-am\n")
    return tmp_path


@pytest.fixture
def api(authority: Authority) -> Iterator[tuple[str, type[ApiServer]]]:
    class Handler(ApiServer):
        asked: ClassVar[list[tuple[str, str, str]]] = []

    served = authority.issue("apiserver", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served.certificate, served.key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"k8s://https://127.0.0.1:{server.server_port}", Handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_the_driver_owns_is_deleted(api, account):
    master, handler = api
    assert executors.remove_former_executors(master, CONF, account) == 2
    assert handler.asked == [
        ("GET", "/api/v1/namespaces/plant/pods?labelSelector=spark-role%3Dexecutor", "Bearer who-I-am"),
        ("DELETE", "/api/v1/namespaces/plant/pods/mine", "Bearer who-I-am"),
        ("DELETE", "/api/v1/namespaces/plant/pods/gone", "Bearer who-I-am"),
    ]


def test_a_second_pod_of_the_same_set_touches_none(api, account):
    master, handler = api
    with pytest.raises(errors.Stop, match=r"this Pod is driver-1.*replicas to 1"):
        executors.remove_former_executors(master, CONF, account, host="driver-1")
    assert handler.asked == []


@pytest.mark.parametrize(
    ("own", "is_one"),
    [
        ("driver-1", True),
        ("driver-10", True),
        ("driver-0", False),
        ("driver-x", False),
        ("other-1", False),
        ("", False),
    ],
)
def test_which_pod_is_another_of_the_set(own, is_one):
    assert executors.is_another_replica(own, "driver-0") == is_one
    assert not executors.is_another_replica("job-7f-1", "job-driver")


def test_an_api_server_that_refuses_stops_nothing(api, account, capfd):
    """The Pods that stay hold nothing that the job needs; the log says so, without the token."""
    master, handler = api
    handler.status = 403
    assert executors.remove_former_executors(master, CONF, account) == 0
    said = "".join(capfd.readouterr())
    assert "who-I-am" not in said


def test_an_api_server_that_is_away_stops_nothing(account):
    (port,) = free_ports(1)
    assert executors.remove_former_executors(f"k8s://https://127.0.0.1:{port}", CONF, account) == 0


@pytest.mark.parametrize(
    ("master", "conf"),
    [("local[*]", CONF), ("k8s://https://127.0.0.1:1", {}), ("spark://127.0.0.1:7077", CONF)],
)
def test_nothing_is_asked_elsewhere(master, conf, account):
    """On one machine, on a standalone cluster, and where there is no driver's Pod or no service account."""
    assert executors.remove_former_executors(master, conf, account) == 0
    assert executors.remove_former_executors("k8s://https://127.0.0.1:1", CONF, account / "none") == 0
