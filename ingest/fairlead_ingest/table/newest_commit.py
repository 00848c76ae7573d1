"""What our newest commit left in a table whose metadata is written whole with each commit, as Iceberg's is.

Positions of hundreds of topics in each of a hundred remembered snapshots would be megabytes a commit.  So a snapshot's
summary says what its batch brought, and what the next commit must know (positions, last batches, sums) is in the table
once, under one property, with the snapshot it was written for.  Others may take snapshots back; then the property
speaks of rows that are gone, and the line of snapshots shows it:

    4 ours ◀─ 5 ours (property) ◀─ 6 compaction      the property counts
    4 ours ◀─ 6 of others                             5 was taken back: only rows say how far they go
    … ◀─ 9 of others                                  5 has expired: rows say it, and that the log was cut
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import CommitInfo

PROPERTY: Final = "fairlead.newest"
BATCHES_MAX: Final = 100
"""A new checkpoint is a new application; of so many the last batch is remembered."""


class TableVersion(NamedTuple):
    """One of a table's versions; ``number`` counts all there ever were."""

    id: int
    parent: int | None
    number: int


class Lineage(Enum):
    """How what was left relates to the table's current version."""

    CURRENT = "current"
    TAKEN_BACK = "taken back"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestCommit:
    """``batches``: by application, its last batch, in the order of their newest commits."""

    snapshot: int
    number: int
    info: CommitInfo
    batches: Mapping[str, int]

    def line(self, newest_first: Iterable[TableVersion]) -> Lineage:
        """``newest_first``: the current version and those it was made from, as far as they are remembered."""
        for each in newest_first:
            if each.id == self.snapshot:
                return Lineage.CURRENT
            if each.number <= self.number:
                return Lineage.TAKEN_BACK
        return Lineage.CUT

    def encode(self) -> str:
        return msgspec.json.encode(
            {
                "v": 1,
                "snapshot": str(self.snapshot),
                "number": self.number,
                "batches": self.batches,
                "info": self.info.to_dict(),
            }
        ).decode()


def following(
    before: NewestCommit | None, *, snapshot: int, number: int, info: CommitInfo, batches: Mapping[str, int]
) -> NewestCommit:
    """What the commit ``snapshot`` leaves."""
    known = {} if before is None else {name: last for name, last in before.batches.items() if name not in batches}
    kept = list(known.items())[-BATCHES_MAX:]
    return NewestCommit(snapshot=snapshot, number=number, info=info, batches={**dict(kept), **batches})


def parse(properties: Mapping[str, str]) -> NewestCommit | None:
    """None where no commit of ours left anything.  Raises ``Stop`` where it is broken."""
    text = properties.get(PROPERTY)
    if text is None:
        return None
    try:
        stored: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        if stored["v"] != 1:
            raise ValueError(f"version {stored['v']}; ours is 1")
        return NewestCommit(
            snapshot=int(stored["snapshot"]),
            number=int(stored["number"]),
            info=commit_info.parse(stored["info"]),
            batches={str(name): int(last) for name, last in stored["batches"].items()},
        )
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"property {PROPERTY} is not what this job leaves: {error}") from error
