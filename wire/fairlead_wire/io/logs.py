"""Logs: one JSON object a line on standard error, each with ``event``; never a secret.

    {"ts":"2026-11-20T22:41:07.123456Z","level":"info","room":"hub","logger":"hub.server","event":"session_opened","node":"edge-1"}

``get("hub.server").info("session_opened", node="edge-1")``.  Records of other libraries pass through the same
handler with event ``log`` and their text as ``message``.  Values whose key looks secret are never written.
"""

from __future__ import annotations

import datetime
import logging
import re
import sys
from typing import Any, TextIO

import msgspec

LINE_CHARS_MAX = 16 * 1024
_SECRET = re.compile(r"(secret|token|password|authorization|credential|private|api_?key)", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+")
_encoder = msgspec.json.Encoder(enc_hook=str)


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
        """For a defect of ours: with the traceback, so that it can be found."""
        self._logger.error(event, extra={"fields": fields}, exc_info=True)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


def get(name: str) -> Logger:
    """The logger of one noun, named ``<room>.<noun>``."""
    return Logger(name)


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
        if not ours:
            entry["message"] = _clean(record.getMessage())
        for key, value in getattr(record, "fields", {}).items():
            entry[key] = "[secret]" if _SECRET.search(key) else _clean(value)
        if record.exc_info:
            entry["traceback"] = _clean(self.formatException(record.exc_info))
        return _encoder.encode(entry).decode()


def _clean(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _BEARER.sub(r"\1 [secret]", value)[:LINE_CHARS_MAX]
