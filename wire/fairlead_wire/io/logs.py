"""Logs as JSON on standard error: one object per line, each with ``event``, without secrets.

    {"ts":"2026-11-20T22:41:07.123456Z","level":"info","room":"hub","logger":"hub.server","event":"session_opened","node":"edge-1"}

``get("hub.server").info("session_opened", node="edge-1")``.  Records of other libraries pass through the same
handler, with event ``log`` and their text as ``message``.  While a span is recorded, lines carry its ``trace_id``.
Values with a secret-looking key, bearer tokens and the user part of an address are replaced.  A peer that hangs up, or
does not speak HTTP or WebSocket, causes one line ``peer_error`` at level info, without a traceback.
"""

from __future__ import annotations

import datetime
import logging
import re
import ssl
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

import msgspec

from fairlead_wire import errors
from fairlead_wire.validation import addresses

LINE_CHARS_MAX = 16 * 1024
REASON_CHARS_MAX = 200
"""Maximum length of the logged reason for a peer's error."""
PLACES_MAX = 3
"""Number of innermost functions that are logged with an unexpected error."""
_SECRET = re.compile(r"(secret|token|password|authorization|credential|private|api_?key)", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+")
_PEERS_FAULTS = ("aiohttp.", "websockets.")
"""An exception from these modules, in a record of another library, is the peer's fault."""
_PEERS_ERRORS = (ConnectionError, TimeoutError, ssl.SSLError, EOFError)
"""System errors that those libraries pass on: the peer hung up, timed out, or failed the TLS handshake."""
_LINE_ENDS = {0x85: "\\x85", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""JSON does not escape them, but some readers treat them as line ends."""
TRACE_ID: ContextVar[str] = ContextVar("trace_id", default="")
"""Trace id of the span being recorded, to find the trace from a log line."""
_encoder = msgspec.json.Encoder()


class Logger:
    """A named logger whose calls take an event name and its fields."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"fairlead.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a defect of ours, with the traceback."""
        self._logger.error(event, extra={"fields": fields}, exc_info=True)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


def get(name: str) -> Logger:
    """The logger named ``<room>.<module>``."""
    return Logger(name)


def describe_error(error: BaseException) -> dict[str, str]:
    """Fields for an unexpected error: its type, its text, and the innermost functions, without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-PLACES_MAX:]
    at = " < ".join(f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return {"error": type(error).__name__, "reason": errors.text_of(error), "at": at}


def configure(room: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log record of this process to ``stream`` (standard error) as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter(room))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("fairlead").setLevel(level.upper())


class _JsonFormatter(logging.Formatter):
    def __init__(self, room: str) -> None:
        super().__init__()
        self._room = room

    def format(self, record: logging.LogRecord) -> str:
        ours = record.name.startswith("fairlead.")
        stamp = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        entry: dict[str, Any] = {
            "ts": stamp.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "room": self._room,
            "logger": record.name.removeprefix("fairlead."),
            "event": record.getMessage() if ours else "log",
        }
        peers = record.exc_info and not ours and _is_peers_fault(record.exc_info[0])
        if peers:  # the library logs "Unhandled exception", which is misleading
            entry |= {"level": "info", "event": "peer_error"}
        elif not ours:
            entry["message"] = _clean(record.getMessage())
        for key, value in getattr(record, "fields", {}).items():
            entry[key] = "[secret]" if _SECRET.search(key) else _clean(value)
        if trace_id := TRACE_ID.get():
            entry["trace_id"] = trace_id
        if record.exc_info and peers:
            reason = str(record.exc_info[1]).strip().partition("\n")[0][:REASON_CHARS_MAX]
            entry["reason"] = _clean(reason or type(record.exc_info[1]).__name__)
        elif record.exc_info:
            entry["traceback"] = _clean(self.formatException(record.exc_info))
        return _encoder.encode(entry).decode()


def _is_peers_fault(kind: type[BaseException] | None) -> bool:
    if kind is None:
        return False
    return f"{kind.__module__}.".startswith(_PEERS_FAULTS) or issubclass(kind, _PEERS_ERRORS)


def _clean(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {str(key): "[secret]" if _SECRET.search(str(key)) else _clean(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(each) for each in value]
    text = str(value)[:LINE_CHARS_MAX]
    if not text.isascii():
        # A peer's header may contain lone surrogates, which cannot be encoded.
        text = text.encode(errors="backslashreplace").decode().translate(_LINE_ENDS)
    return addresses.in_text(_BEARER.sub(r"\1 [secret]", text))
