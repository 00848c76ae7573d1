"""Health over real HTTP."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from fairlead_ingest.io.http_server import HealthServer, JobHealth
from fairlead_ingest.io.metrics import IngestMetrics


@pytest.fixture
def health() -> JobHealth:
    return JobHealth(waiting={"ingest": "starting"})


@pytest.fixture
def server(health: JobHealth) -> Iterator[HealthServer]:
    serving = HealthServer("127.0.0.1", 0, health, IngestMetrics().registry)
    yield serving
    serving.close()


def ask(server: HealthServer, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def test_ready_means_no_pipeline_waits(server: HealthServer, health: JobHealth) -> None:
    """The answer says who waits for what."""
    assert ask(server, "/readyz") == (503, "ingest: starting\n")
    health.waiting.clear()
    assert ask(server, "/readyz?verbose=1") == (200, "ok\n")


def test_healthy_until_broken(server: HealthServer, health: JobHealth) -> None:
    """A service that is down is no reason to be restarted."""
    assert ask(server, "/healthz")[0] == 200
    health.broken = "the driver hangs"
    assert ask(server, "/healthz") == (500, "the driver hangs\n")


def test_metrics_are_prometheus_text(server: HealthServer) -> None:
    """And nothing else is served."""
    assert "fairlead_ingest_rows" in ask(server, "/metrics")[1]
    assert ask(server, "/secret")[0] == 404


def test_a_taken_port_is_an_error(server: HealthServer, health: JobHealth) -> None:
    """The program decides what to say."""
    with pytest.raises(OSError, match="in use"):
        HealthServer("127.0.0.1", server.port, health, IngestMetrics().registry)
