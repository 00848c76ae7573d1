"""Hundreds of clients that keep what they have: probes, publishers and kubectl get in all the same."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry

pytestmark = pytest.mark.process

CLIENTS = 700
WATCHERS = 600
TRIES = 20


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """This side needs one for each client, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(port: int, path: str) -> socket.socket:
    """A client that asks once and keeps its connection."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def others_get_in(edge: EdgeProgram) -> None:
    for number in range(TRIES):
        assert edge.get("/healthz") == b"ok" and edge.get("/readyz") == b"ok"
        assert b"EdgeRoutes" in edge.get("/apis/fairlead.dev/v1alpha1/edgeroutes")
        assert edge.publish([telemetry(1, {"n": number})])


def test_clients_that_asked_once_and_keep_their_connections(tmp_path: Path) -> None:
    with CountingHub() as hub, EdgeProgram(tmp_path, hub.port) as edge:
        edge.await_routes()
        crowd = []
        for _ in range(CLIENTS):
            crowd.append(client := ask(edge.port, "/healthz"))
            assert client.recv(4096)[:15] == b"HTTP/1.1 200 OK"
        others_get_in(edge)
        hub.wait_for(TRIES)
        for client in crowd:
            client.close()


@pytest.mark.verify
def test_more_watchers_than_there_is_room_for(tmp_path: Path) -> None:
    with CountingHub() as hub, EdgeProgram(tmp_path, hub.port) as edge:
        edge.await_routes()
        path = "/apis/fairlead.dev/v1alpha1/edgeroutes?watch=true"
        crowd = [ask(edge.port, path) for _ in range(WATCHERS)]
        answers = [client.recv(12) for client in crowd]
        assert answers.count(b"HTTP/1.1 200") == 256
        assert answers.count(b"HTTP/1.1 429") == WATCHERS - 256
        others_get_in(edge)
        silent = [socket.create_connection(("127.0.0.1", edge.port), timeout=60) for _ in range(CLIENTS)]
        slow = [socket.create_connection(("127.0.0.1", edge.port), timeout=60) for _ in range(300)]
        for client in slow:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        others_get_in(edge)
        hub.wait_for(2 * TRIES)
        for client in (*crowd, *silent, *slow):
            client.close()
