"""Which traces rows belong to, by the property their messages carry."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_wire import trace
from fairlead_wire.trace import LATE_SECONDS, LINKS_MAX, TRACEPARENT

_MARK = f'"{TRACEPARENT}":"00-'
_properties = msgspec.json.Decoder(dict[str, str | None])


def find(rows: pa.RecordBatch, now: float, limit: int = LINKS_MAX) -> list[tuple[str, bool]]:
    """Sampled ``traceparent`` of messages, and whether each is late by now: seconds since 1970."""
    if "properties" not in rows.schema.names:
        return []
    properties = rows["properties"]
    marked = pc.fill_null(pc.match_substring(properties, _MARK), False)
    if not pc.any(marked).as_py():
        return []
    is_timed = "enqueued_at" in rows.schema.names
    found: dict[str, bool] = {}
    for index in pc.indices_nonzero(marked).to_pylist():
        try:
            origin = trace.sampled(_properties.decode(properties[index].as_py()).get(TRACEPARENT))
        except (msgspec.MsgspecError, UnicodeError):
            continue  # properties that are no text each; the rows are not about them
        if origin is None:
            continue
        micros = rows["enqueued_at"][index].value if is_timed else None
        found.setdefault(str(origin), micros is not None and now - micros / 1e6 > LATE_SECONDS)
        if len(found) == limit:
            break
    return list(found.items())
