"""Starting a Spark Connect session, and giving Spark's errors a code; test_spark_connect runs a job there."""

from __future__ import annotations

import errno
import socket
import sys
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException
from tests.support.processes import free_ports

from fairlead_ingest import errors
from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import coded


def test_a_server_that_does_not_answer_is_away():
    """At once: Spark's own client would try for ten minutes."""
    (port,) = free_ports(1)
    with pytest.raises(connect.SparkAway, match=f"no Spark Connect server answers .127.0.0.1:{port}"):
        connect.start(f"sc://127.0.0.1:{port}", {})


def test_without_its_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(connect, "require_answer", lambda *_: None)
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.client.retries", None)
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_BAD_OPTION: spark.remote: .*fairlead-kubernetes\[connect\]"):
        connect.start("sc://h:1", {})


def test_what_a_running_server_cannot_be_given_is_named(monkeypatch):
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
    with pytest.raises(errors.Stop, match=r"spark.conf.spark.executor.memory: .*when the server is started"):
        connect.start("sc://h:1", {"spark.executor.memory": "1g"})


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException(message="refused", grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkConnectGrpcException(message="[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid."),
        PySparkException("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
    ],
)
def test_spark_that_is_gone_is_told_apart(error):
    with pytest.raises(connect.SparkAway), coded():
        raise error


@pytest.mark.parametrize(
    "error", [AnalysisException(message="[TABLE_OR_VIEW_NOT_FOUND]"), PySparkException("x"), KeyError("defect")]
)
def test_other_errors_are_about_something_else(error):
    assert connect.of(error) is None


def test_one_address_that_answers_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        connect.require_answer("Spark master", [("127.0.0.1", 1), ("127.0.0.1", port)])
    with pytest.raises(connect.SparkAway, match=r"no Spark master answers \(127.0.0.1:1: Connection refused\)"):
        connect.require_answer("Spark master", [("127.0.0.1", 1)])


def test_the_line_that_people_need_is_kept():
    text = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>'
    assert connect.brief(SparkConnectGrpcException(message=text)) == 'details = "gone"'


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errors.Wait, errors.DISK_FULL),
        (PySparkException("x FAIRLEAD_TABLE_TAKEN: another job\n"), errors.Stop, errors.TABLE_TAKEN),
        (PySparkException("x FAIRLEAD_UNREACHABLE: down\n"), errors.Wait, errors.UNREACHABLE),
        (PySparkException("ValueError: seven"), errors.Fault, "seven"),
    ],
)
def test_a_failure_says_whether_waiting_helps(raised, kind, code):
    with pytest.raises(kind, match=code), coded():
        raise raised


@pytest.mark.parametrize("raised", [ConnectionRefusedError("gone"), KeyError("defect")])
def test_a_jvm_that_is_gone_and_defects_pass_as_they_are(raised):
    with pytest.raises(type(raised)), coded():
        raise raised
