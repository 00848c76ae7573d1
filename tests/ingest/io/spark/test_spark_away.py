"""Errors that say Spark itself is gone, and those that do not."""

from __future__ import annotations

import socket

import grpc  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

from fairlead_ingest.io.spark import connect
from fairlead_ingest.io.spark.connect import coded


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException(message="refused", grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkConnectGrpcException(message="[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid."),
        PySparkException("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
    ],
)
def test_spark_that_is_gone_is_told_apart(error: PySparkException) -> None:
    """Whatever was asked of it."""
    with pytest.raises(connect.SparkAway), coded():
        raise error


@pytest.mark.parametrize(
    "error", [AnalysisException(message="[TABLE_OR_VIEW_NOT_FOUND]"), PySparkException("x"), KeyError("defect")]
)
def test_other_errors_are_about_something_else(error: Exception) -> None:
    """A query's own."""
    assert connect.of(error) is None


def test_one_address_that_answers_is_enough() -> None:
    """Two masters, one of them waiting for the other to die."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        connect.require_answer("Spark master", [("127.0.0.1", 1), ("127.0.0.1", port)])
    with pytest.raises(connect.SparkAway, match=r"no Spark master answers \(127.0.0.1:1: Connection refused\)"):
        connect.require_answer("Spark master", [("127.0.0.1", 1)])


def test_the_line_that_people_need_is_kept() -> None:
    """gRPC writes a block of them."""
    text = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>'
    assert connect.brief(SparkConnectGrpcException(message=text)) == 'details = "gone"'
