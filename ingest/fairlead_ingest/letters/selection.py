"""Which dead letters are meant."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.table.report import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Empty: all.  Times are milliseconds since 1970 of publishing: from ``since_ms``, before ``until_ms``."""

    codes: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    def condition(self, columns: Collection[str]) -> pc.Expression:
        """For a table with these columns; one that no job of today has opened yet has no codes."""
        found = pc.scalar(True)
        for name, values in (("_topic", self.topics), ("_id", self.ids)):
            if values:
                found &= pc.field(name).isin(pa.array(sorted(values), pa.string()))
        if self.codes:
            is_unknown = pc.field("code").is_null() if "code" in columns else pc.scalar(True)
            is_code = pc.field("code").isin(pa.array(sorted(self.codes), pa.string())) if "code" in columns else None
            if UNKNOWN not in self.codes:
                is_unknown = pc.scalar(False)
            found &= is_unknown if is_code is None else is_code | is_unknown
        if self.since_ms is not None:
            found &= pc.field("_published_at") >= pa.scalar(self.since_ms * 1000, TIMESTAMP)
        if self.until_ms is not None:
            found &= pc.field("_published_at") < pa.scalar(self.until_ms * 1000, TIMESTAMP)
        return found
