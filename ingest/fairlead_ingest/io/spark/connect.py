"""Sessions on a Spark Connect server, the errors that mean Spark itself is gone, and codes for errors of queries.

With Spark Connect, the queries run on the server, and either side may outlive the other. When this program is killed,
its query continues on the server until a new program takes over its checkpoint. When the server is killed, the program
waits for it and starts its queries again. The server's Python needs this package and access to table, checkpoint and
messaging.

``SparkAway`` means that the master does not answer or ended this application, or that a Connect server was killed; the
program then waits and opens a new session. Other errors of Spark, tables and disks concern a query; ``coded`` gives
them a code.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.spark_cluster import address
from fairlead_wire import distribution
from fairlead_wire.errors import text_of

CONNECT_SECONDS: Final = 5.0
_CONNECT_ERRORS: Final = "pyspark.errors.exceptions.connect"
# Errors of a Connect server that has lost this program's session.
_FORGOTTEN: Final = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_", "NO_ACTIVE_SESSION")
# Errors of the driver's own context after its master ended the application.
_STOPPED: Final = ("stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown")


class SparkAway(ConnectionError):
    """Spark does not answer, or was restarted."""


def of(error: BaseException) -> SparkAway | None:
    """The ``SparkAway`` that an error means, None if it is about something else."""
    if isinstance(error, SparkAway):
        return error
    text = str(error)
    if any(words in text for words in _STOPPED):
        return SparkAway("Spark's master ended this application: it was restarted, or lost the connection to it")
    if type(error).__module__ != _CONNECT_ERRORS:
        return None
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    if getattr(status, "name", "") == "UNAVAILABLE" or any(words in text for words in _FORGOTTEN):
        return SparkAway(f"the Spark Connect server is gone or was restarted: {brief(error)}")
    return None


def is_about_spark(error: BaseException) -> bool:
    """Whether the JVM, the master or the Connect server is gone, which concerns all pipelines."""
    is_jvm_gone = isinstance(error, ConnectionError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )
    return is_jvm_gone or of(error) is not None


def require_answer(what: str, addresses: Sequence[tuple[str, int]]) -> None:
    """Raise ``SparkAway`` if none of the addresses accepts a connection."""
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error or type(error).__name__}")
    raise SparkAway(f"no {what} answers ({', '.join(reasons)})")


def brief(error: BaseException) -> str:
    """The most useful line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    detail = next((line for line in lines if line.startswith("details =")), "")
    return (detail or (lines[0] if lines else type(error).__name__))[:300]


# A request to a lost server fails after about two seconds, and the program reports that it waits. (With its own
# defaults, Spark's client would be silent for ten minutes.)
RETRIES: Final = 4
RETRY_MS_MAX: Final = 1000


def start(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """Open a new session on the server. Raises ``SparkAway``, or ``Stop`` if waiting does not help."""
    require_answer("Spark Connect server", [address(remote)])
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session: SparkSession = SparkSession.builder.remote(remote).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=RETRY_MS_MAX)])
        for key, value in conf.items():
            _set(session, key, value)
    except ImportError as error:
        remedy = f"install Spark Connect's client with: {distribution.install('connect')}"
        raise errors.Stop(errors.BAD_OPTION, f"spark.remote: {brief(error)}; {remedy}") from error
    except PySparkException as error:
        raise of(error) or errors.Stop(errors.BAD_OPTION, f"spark.remote: {brief(error)}") from error
    return session


def _set(session: SparkSession, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except PySparkException as error:
        if of(error) is not None:
            raise
        remedy = "this cannot be changed on a running Spark Connect server; set it when the server is started"
        raise errors.Stop(errors.BAD_OPTION, f"spark.conf.{key}: {remedy} ({brief(error)})") from error


def is_remote(session: SparkSession) -> bool:
    """Whether the session's queries run on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


# Errors that concern tables and queries, as opposed to a lost JVM.
ABOUT_QUERIES = (OSError, DeltaError, PySparkException, Py4JJavaError)


@contextmanager
def coded() -> Iterator[None]:
    """Convert errors of Spark, tables and disks: to ``Wait`` if waiting may help, to ``Fault`` if the cause is unknown,
    to ``SparkAway`` if Spark is gone, else to ``Stop``. The error of a lost JVM passes unchanged."""
    try:
        yield
    except ConnectionError:
        raise
    except ABOUT_QUERIES as error:
        if (away := of(error)) is not None:
            raise away from error
        code, sentence = errors.explain(text_of(error))
        if code is None:
            raise errors.Fault(sentence) from error
        raise (errors.Wait if code in errors.TEMPORARY else errors.Stop)(code, sentence) from error
