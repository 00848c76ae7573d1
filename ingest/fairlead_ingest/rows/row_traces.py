"""Which traces rows belong to, by the property their messages carry."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_wire.traces import trace
from fairlead_wire.traces.trace import LATE_SECONDS, LINKS_MAX, TRACEPARENT

_MARK = f'"{TRACEPARENT}":"00-'
_properties = msgspec.json.Decoder(dict[str, str | None])


def find(rows: pa.RecordBatch, now: float, limit: int = LINKS_MAX) -> list[tuple[str, bool]]:
    """Sampled ``traceparent`` of messages, and whether each is late by now: seconds since 1970."""
    # A user's transform may drop these columns, or make something else of them.
    if not _is(rows, "properties", pa.types.is_string, pa.types.is_large_string):
        return []
    properties = rows["properties"]
    marked = pc.fill_null(pc.match_substring(properties, _MARK), False)
    if not pc.any(marked).as_py():
        return []
    is_timed = _is(rows, "enqueued_at", pa.types.is_timestamp)
    found: dict[str, bool] = {}
    for index in pc.indices_nonzero(marked).to_pylist():
        try:
            origin = trace.sampled(_properties.decode(properties[index].as_py()).get(TRACEPARENT))
        except (msgspec.MsgspecError, UnicodeError):
            continue  # properties that are no text each; the rows are not about them
        if origin is None:
            continue
        micros = rows["enqueued_at"][index].value if is_timed else None  # Spark's only unit
        found.setdefault(str(origin), micros is not None and now - micros / 1e6 > LATE_SECONDS)
        if len(found) == limit:
            break
    return list(found.items())


def _is(rows: pa.RecordBatch, name: str, *kinds: Callable[[pa.DataType], bool]) -> bool:
    return name in rows.schema.names and any(kind(rows.schema.field(name).type) for kind in kinds)
