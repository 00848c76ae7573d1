"""Which commits of a table's history the version that is current is made of.

A table's log keeps what was taken back: after a RESTORE the newest commit of ours may speak of rows that are
gone. So history is read from its newest end, and what a RESTORE jumped over is passed over here too.

    12 RESTORE to 7 · 11 batch · … · 8 batch · 7 batch        the newest of ours that counts is 7
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import CommitInfo

_REPLACED = ("CLONE", "CONVERT", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "TRUNCATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestCounting:
    """``info``: what our newest commit that counts says, None where there is none.

    ``is_replaced``: others put the whole content there, so only the rows say how far they go.
    """

    info: CommitInfo | None = None
    is_replaced: bool = False


def newest(entries: Iterable[Mapping[str, Any]]) -> NewestCounting:
    """Our newest commit in the current version's line; ``entries`` of a table's history come newest first."""
    version_max: int | None = None
    time_max: int | None = None
    for entry in entries:
        if version_max is not None and entry["version"] > version_max:
            continue
        if time_max is not None and entry["timestamp"] > time_max:
            continue
        version_max = time_max = None
        operation, parameters = str(entry.get("operation", "")), entry.get("operationParameters") or {}
        if operation == "RESTORE":
            try:
                version_max, time_max = _target(parameters)
            except ValueError:
                return NewestCounting(is_replaced=True)
            continue
        info = commit_info.read(entry)
        if info is not None:
            return NewestCounting(info=info)
        if operation.startswith(_REPLACED) or _overwrites(operation, parameters):
            return NewestCounting(is_replaced=True)
    return NewestCounting()


def _target(parameters: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(version, milliseconds since 1970), one of them. Raises ``ValueError`` where neither can be read."""
    version = parameters.get("version")
    if version is not None:
        return int(version), None
    moment = str(parameters.get("datetime") or parameters.get("timestamp") or "")
    if moment.isdigit():
        return None, int(moment)
    aware = datetime.datetime.fromisoformat(moment)
    return None, int((aware if aware.tzinfo else aware.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _overwrites(operation: str, parameters: Mapping[str, Any]) -> bool:
    """The whole table; a part that was named by a condition is a correction."""
    is_whole = not parameters.get("predicate") and not parameters.get("replaceWhere")
    return operation == "WRITE" and str(parameters.get("mode", "")).lower() == "overwrite" and is_whole
