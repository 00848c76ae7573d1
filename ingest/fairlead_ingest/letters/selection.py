"""Which dead letters are meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.rows.envelope import TIMESTAMP

UNKNOWN: Final = "unknown"
"""The code of what an older version wrote, which had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """Empty: all.  Times are milliseconds since 1970 of publishing: from ``since_ms``, before ``until_ms``."""

    codes: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def condition(self) -> pc.Expression:
        """What a table's files may be passed over by: columns for which the log has bounds of every file."""
        found = pc.scalar(True)
        for name, values in (("_topic", self.topics), ("_id", self.ids)):
            if values:
                found &= pc.field(name).isin(pa.array(sorted(values), pa.string()))
        if self.since_ms is not None:
            found &= pc.field("_published_at") >= pa.scalar(self.since_ms * 1000, TIMESTAMP)
        if self.until_ms is not None:
            found &= pc.field("_published_at") < pa.scalar(self.until_ms * 1000, TIMESTAMP)
        return found

    def with_codes(self, letters: pa.Table) -> pa.Table:
        """Those that have one of the codes; what an older version wrote has none."""
        if not self.codes:
            return letters
        codes = pc.fill_null(letters["code"], UNKNOWN)
        return letters.filter(pc.is_in(codes, value_set=pa.array(sorted(self.codes), pa.string())))
