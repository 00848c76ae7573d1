"""A session on a Spark Connect server: the queries run there, and this program only says what they are.

Either outlives the other. When the program is killed its query goes on there, until a new program takes it over by its
checkpoint; when the server is killed the program waits for it, and starts its queries again. The server's Python has this package, and it reaches table, checkpoint and messaging as this program does.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fairlead_ingest import errors
from fairlead_ingest.cluster.connect_address import address

# One request to a server that is gone is given up after about two seconds; what waits longer is this program, which
# says so. (Spark's own client would be silent for ten minutes.)
RETRIES: Final = 4
RETRY_MS_MAX: Final = 1000
CONNECT_SECONDS: Final = 5.0
# Conditions of an error that say the server no longer has what this program made there.
_FORGOTTEN: Final = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_", "RETRIES_EXCEEDED", "NO_ACTIVE_SESSION")


class ServerAway(ConnectionError):
    """The server does not answer, or is another one than a moment ago."""


def start(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """A new session there. Raises ``ServerAway``, and ``Stop`` for what no waiting heals."""
    host, port = address(remote)
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ServerAway(f"no Spark Connect server answers at {host}:{port}: {reason}") from None
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session: SparkSession = SparkSession.builder.remote(remote).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=RETRY_MS_MAX)])
        for key, value in conf.items():
            _set(session, key, value)
    except ImportError as error:
        remedy = "install Spark Connect's client with: pip install 'fairlead[connect]'"
        raise errors.Stop(errors.BAD_OPTION, f"spark.remote: {_brief(error)}; {remedy}") from error
    except PySparkException as error:
        raise away(error) or errors.Stop(errors.BAD_OPTION, f"spark.remote: {_brief(error)}") from error
    return session


def _set(session: SparkSession, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except PySparkException as error:
        if away(error) is not None:
            raise
        remedy = "a running Spark Connect server cannot be given this any more, set it where the server is started"
        raise errors.Stop(errors.BAD_OPTION, f"spark.conf.{key}: {remedy} ({_brief(error)})") from error


def is_remote(session: SparkSession) -> bool:
    """The session's queries run on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def away(error: BaseException) -> ServerAway | None:
    """What the error says of the server, None where it is about something else."""
    if not type(error).__module__.startswith("pyspark.errors.exceptions.connect") and "RETRIES" not in str(error)[:80]:
        return None
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    if getattr(status, "name", "") == "UNAVAILABLE" or any(each in f"{condition} {error}" for each in _FORGOTTEN):
        return ServerAway(f"the Spark Connect server is gone, or was started anew: {_brief(error)}")
    return None


def _brief(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
