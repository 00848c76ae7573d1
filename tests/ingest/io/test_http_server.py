"""Health, metrics and receipts over real HTTP."""

from __future__ import annotations

import datetime
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from tests.ingest.io.table.test_receipt import SCHEMA
from tests.support.tables.table_formats import append_rows

from fairlead_ingest import errors
from fairlead_ingest.io import http_server
from fairlead_ingest.io.http_server import HealthServer, JobHealth, ReceiptsHttp
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.io.table import delta


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


def test_ready_means_no_pipeline_waits(server, health):
    assert ask(server, "/readyz") == (503, "ingest: starting\n")
    health.waiting.clear()
    assert ask(server, "/readyz?verbose=1") == (200, "ok\n")


def test_healthy_until_broken(server, health):
    assert ask(server, "/healthz")[0] == 200
    health.broken = "the driver hangs"
    assert ask(server, "/healthz") == (500, "the driver hangs\n")


def test_metrics_are_prometheus_text(server):
    assert "fairlead_ingest_rows" in ask(server, "/metrics")[1]
    assert ask(server, "/secret")[0] == 404


def test_a_taken_port_is_an_error(server, health):
    with pytest.raises(OSError, match="in use"):
        HealthServer("127.0.0.1", server.port, health, IngestMetrics().registry)


def commit(table: Path, name: str, *, days_ago: int = 0) -> None:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days_ago)
    delta.ensure(table, SCHEMA)
    row = {"id": name, "node": "edge 1", "_topic": "a/t", "_id": "0a", "_batch": 3, "_date": moment.date()}
    append_rows(delta, table, [{**row, "_published_at": moment, "_ingested_at": moment}], SCHEMA)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    receipts_http = ReceiptsHttp([("first", delta, tmp_path / "none"), ("second", delta, tmp_path / "rows")])
    serving = HealthServer("127.0.0.1", 0, JobHealth(), IngestMetrics().registry, receipts_http)
    yield serving.port
    serving.close()


def ask_receipts(port: int, target: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", http_server.PATH + target)
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


@pytest.mark.slow
def test_a_message_in_any_of_the_tables_is_found(port, tmp_path):
    commit(tmp_path / "rows", "m/1 ü")
    status, found = ask_receipts(port, "m%2F1%20%C3%BC?node=edge%201")
    assert (status, found["pipeline"], found["_topic"], found["_batch"]) == (200, "second", "a/t", 3)
    assert ask_receipts(port, "m%2F1%20%C3%BC?node=edge-2") == (404, {"found": False})
    assert ask_receipts(port, "m2?wait=0.3") == (404, {"found": False})


@pytest.mark.parametrize("error", [errors.Wait(errors.STORE_AWAY, "away"), OSError("away"), DeltaError("away")])
def test_a_table_that_cannot_be_read_is_503_and_no_broken_connection(port, monkeypatch, error):
    def version(_: Path) -> int:
        raise error

    monkeypatch.setattr(delta, "version", version)
    status, answer = ask_receipts(port, "m1")
    assert (status, answer["error"]) == (503, {"code": "table_away", "message": "away"})


@pytest.mark.slow
def test_it_can_be_waited_for(port, tmp_path):
    commit(tmp_path / "rows", "m1")
    later = threading.Timer(0.2, commit, (tmp_path / "rows", "m2"))
    later.start()
    status, found = ask_receipts(port, "m2?wait=30")
    later.join()
    assert (status, found["id"]) == (200, "m2")


def test_only_the_days_asked_for_are_looked_at(port, tmp_path):
    commit(tmp_path / "rows", "old", days_ago=9)
    assert ask_receipts(port, "old")[0] == 404
    assert ask_receipts(port, "old?days=10")[0] == 200


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("", "a message id"),
        ("x" * 600, "at most 512 characters"),
        ("m1?wait=61", "wait: must be a number from 0 to 60"),
        ("m1?wait=nan", "wait: must be a number"),
        ("m1?days=soon", "days: must be a number"),
        ("m1?nodes=a", "nodes: unknown"),
    ],
)
def test_a_bad_question_is_refused_with_a_sentence(port, target, reason):
    status, answer = ask_receipts(port, target)
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert reason in answer["error"]["message"]


def test_only_so_many_are_answered_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "REQUESTS_MAX", 0)
    receipts_http = ReceiptsHttp([])
    status, body, headers = receipts_http.answer(http_server.PATH + "m1")
    assert (status, json.loads(body)["error"]["code"], dict(headers)) == (429, "busy", {"Retry-After": "1"})
