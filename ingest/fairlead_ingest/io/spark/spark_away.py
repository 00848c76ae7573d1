"""Spark itself is gone: its master does not answer or ended this application, or a Connect server was killed.

What a query says of its rows is another matter (``spark_errors``). Here only waiting helps, and then a new session.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

CONNECT_SECONDS: Final = 5.0
_CONNECT_ERRORS: Final = "pyspark.errors.exceptions.connect"
# Of a Connect server: it no longer has what this program made there.
_FORGOTTEN: Final = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_", "NO_ACTIVE_SESSION")
# Of a driver's own context, after its master ended the application.
_STOPPED: Final = ("stopped SparkContext", "SparkContext was shut down", "SparkContext has been shutdown")


class SparkAway(ConnectionError):
    """Spark does not answer, or is another one than a moment ago."""


def of(error: BaseException) -> SparkAway | None:
    """What the error says of Spark itself, None where it is about something else."""
    if isinstance(error, SparkAway):
        return error
    text = str(error)
    if any(words in text for words in _STOPPED):
        return SparkAway("Spark's master ended this application: it was started anew, or lost sight of it")
    if type(error).__module__ != _CONNECT_ERRORS:
        return None
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    if getattr(status, "name", "") == "UNAVAILABLE" or any(words in text for words in _FORGOTTEN):
        return SparkAway(f"the Spark Connect server is gone, or was started anew: {brief(error)}")
    return None


def require_answer(what: str, addresses: Sequence[tuple[str, int]]) -> None:
    """Raises ``SparkAway`` where none of them takes a connection."""
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error or type(error).__name__}")
    raise SparkAway(f"no {what} answers ({', '.join(reasons)})")


def brief(error: BaseException) -> str:
    """The line of an error that people need."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    detail = next((line for line in lines if line.startswith("details =")), "")
    return (detail or (lines[0] if lines else type(error).__name__))[:300]
