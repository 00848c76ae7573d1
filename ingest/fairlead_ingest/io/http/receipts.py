"""``GET /v1/receipts/ID``: is a message in a table; the answer may be waited for.

For those who can reach the job but not its tables: a producer at the edge, say. What is answered is committed. Each
question looks at the files of the last days, newest first, each once; few may be asked at the same time.

    200 {"found": true, "pipeline", "_topic", "_batch", …}   404 {"found": false}   400 bad question   429 ask later
    503 the table cannot be read now
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from deltalake.exceptions import DeltaError

from fairlead_ingest import errors
from fairlead_ingest.io.table.receipt import LOOK_SECONDS, TableReceipts
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place
from fairlead_wire.errors import FairleadError

PATH = "/v1/receipts/"
ASKING_MAX = 8
RETRY_SECONDS = 1
WAIT_SECONDS_MAX = 60.0
DAYS_DEFAULT = 2
DAYS_MAX = 31
NAME_CHARS_MAX = 512


class ReceiptsHttp:
    """Answers for all tables of a job: (pipeline, table format, table) each. Thread-safe."""

    def __init__(self, tables: Sequence[tuple[str, TableFormat, Place]]) -> None:
        self._tables = tables
        self._asking = threading.BoundedSemaphore(ASKING_MAX)

    def answer(self, target: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, JSON body and headers for the target of a request; blocks as long as was asked for."""
        try:
            name, node, wait, days = _parse(target)
        except ValueError as error:
            return _refuse(400, "bad_request", str(error))
        if not self._asking.acquire(blocking=False):
            status, body, _ = _refuse(429, "busy", f"{ASKING_MAX} are being answered already")
            return status, body, {"Retry-After": str(RETRY_SECONDS)}
        try:
            found = self._look(name, node, wait, days)
        except (FairleadError, OSError, DeltaError) as error:
            status, body, _ = _refuse(503, "table_away", errors.explain(str(error))[1])
            return status, body, {"Retry-After": str(RETRY_SECONDS)}
        finally:
            self._asking.release()
        if found is None:
            return 404, msgspec.json.encode({"found": False}), {}
        return 200, msgspec.json.encode({"found": True, **found}), {}

    def _look(self, name: str, node: str | None, wait: float, days: int) -> dict[str, Any] | None:
        since = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).date()
        looking = [
            (pipeline, TableReceipts(table_format, table, name, node, since))
            for pipeline, table_format, table in self._tables
        ]
        deadline = time.monotonic() + wait
        while True:
            for pipeline, receipts in looking:
                found = receipts.find()
                if found is not None:
                    return {"pipeline": pipeline, **found}
            if time.monotonic() >= deadline:
                return None
            time.sleep(LOOK_SECONDS)


def _parse(target: str) -> tuple[str, str | None, float, int]:
    """Message id, node, seconds and days. Raises ``ValueError`` with a sentence."""
    parts = urlsplit(target)
    name = unquote(parts.path.removeprefix(PATH))
    asked = parse_qs(parts.query, max_num_fields=8)
    unknown = set(asked) - {"node", "wait", "days"}
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]}: only node, wait and days can be asked for")
    node = asked.get("node", [None])[0]
    if not 0 < len(name) <= NAME_CHARS_MAX or len(node or "") > NAME_CHARS_MAX:
        raise ValueError(f"a message id, and a node, of at most {NAME_CHARS_MAX} characters")
    wait, days = _number(asked, "wait", 0.0, WAIT_SECONDS_MAX), _number(asked, "days", DAYS_DEFAULT, DAYS_MAX)
    return name, node, wait, int(days)


def _number(asked: Mapping[str, Sequence[str]], name: str, default: float, most: float) -> float:
    text = asked.get(name, [str(default)])[0]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ValueError(f"{name}: a number from 0 to {most:g}, not {text[:40]!r}")
    return value


def _refuse(status: int, code: str, message: str) -> tuple[int, bytes, Mapping[str, str]]:
    return status, msgspec.json.encode({"error": {"code": code, "message": message}}), {}
