"""What is found out about a Connect server before and while its session is made; the job there: test_spark_connect."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import AnalysisException
from pyspark.sql import SparkSession
from tests.support.processes import free_ports

from fairlead_ingest import errors
from fairlead_ingest.io.spark import connect


def test_a_server_that_does_not_answer_is_away() -> None:
    """At once: Spark's own client would try for ten minutes."""
    (port,) = free_ports(1)
    with pytest.raises(connect.SparkAway, match=f"no Spark Connect server answers .127.0.0.1:{port}"):
        connect.start(f"sc://127.0.0.1:{port}", {})


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: most jobs do not need it."""
    monkeypatch.setattr(connect, "require_answer", lambda *_: None)
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client.retries", None)
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_BAD_OPTION: spark.remote: .*fairlead-kubernetes\[connect\]"):
        connect.start("sc://h:1", {})


def test_what_a_running_server_cannot_be_given_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With where it belongs."""
    given: dict[str, str] = {}

    def put(key: str, value: str) -> None:
        if key == "spark.executor.memory":
            raise AnalysisException(message="[CANNOT_MODIFY_CONFIG] Cannot modify it.")
        given[key] = value

    client = SimpleNamespace(set_retry_policies=lambda _: None)
    session: Any = SimpleNamespace(client=client, conf=SimpleNamespace(set=put))
    monkeypatch.setattr(connect, "require_answer", lambda *_: None)
    builder = SimpleNamespace(remote=lambda _: SimpleNamespace(create=lambda: session))
    monkeypatch.setattr(connect, "SparkSession", SimpleNamespace(builder=builder))
    assert connect.start("sc://h:1", {"spark.sql.ansi.enabled": "true"}) is session
    assert given == {"spark.sql.ansi.enabled": "true"}
    with pytest.raises(errors.Stop, match=r"spark.conf.spark.executor.memory: .*where the server is started"):
        connect.start("sc://h:1", {"spark.executor.memory": "1g"})


def test_a_session_of_a_master_is_none_of_a_server() -> None:
    """By where its class lives."""
    assert not connect.is_remote(SparkSession.__new__(SparkSession))
