"""How a latest table stands beside its rows, from both tables alone."""

from __future__ import annotations

import datetime
from typing import Any

from fairlead_ingest.io.latest import latest_table, refresh
from fairlead_ingest.io.table import tables
from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Place


def of(rows: Place, now: datetime.datetime) -> dict[str, Any]:
    """As plain values. Raises ``Stop``, ``Wait``."""
    place = tables.beside(rows, store_path.LATEST)
    state = latest_table.look(place)
    if state is None:
        return {"table": str(place), "state": "no table yet"}
    source = refresh.open_source(rows)
    facts: dict[str, Any] = {
        "table": str(place),
        "state": "ok",
        "version": state.version,
        "files": len(state.files),
        "bytes": sum(each.size for each in state.files),
    }
    if state.marked is None or source is None or state.marked.mark.source != source.id:
        # It was changed by others, or the rows were made anew: the next refresh builds it again.
        return {**facts, "state": "to be built"}
    mark = state.marked.mark
    moment = datetime.datetime.fromtimestamp(state.marked.timestamp_ms / 1000, datetime.UTC)
    return {
        **facts,
        "keys": mark.keys - mark.deleted,
        "deleted_keys": mark.deleted,
        "rows_version": mark.version,
        "versions_behind": max(0, source.version - mark.version),
        "last_refresh": moment.isoformat(timespec="milliseconds"),
        "last_refresh_seconds": round((now - moment).total_seconds(), 3),
    }
