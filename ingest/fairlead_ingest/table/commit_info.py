"""What we leave in the metadata of each commit, typed, with the ages of its messages.

In the table's log it is plain JSON under one key, beside what others leave there:

    {"fairlead": {"reached": {…}, "application": "fairlead:…", "batch": 12, "totals": {…}, "rows": 912, …}}

``read_commit_info`` and ``CommitInfo.to_dict`` are the only places that know these stored names.

Iceberg's metadata is written whole with each commit. Positions of hundreds of topics in each of a hundred remembered
snapshots would be megabytes a commit. So a snapshot's summary says what its batch brought, and what the next commit
must know (positions, last batches, sums) is in the table once, under one property (``NewestCommit``), with the snapshot
it was written for. Others may take snapshots back; then the property speaks of rows that are gone, and the line of
snapshots shows it:

    4 ours ◀─ 5 ours (property) ◀─ 6 compaction      the property counts
    4 ours ◀─ 6 of others                             5 was taken back: only rows say how far they go
    … ◀─ 9 of others                                  5 has expired: rows say it, and that the log was cut

Ages say how old messages were when their row became visible, in seconds from ``enqueued_at`` at the edge to the commit,
as counts in fixed buckets. Counts add up over tasks, batches and jobs, which percentiles do not: tasks count, the
commit carries the sums, and metrics and reports read them from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_ingest import errors
from fairlead_ingest.source import offsets
from fairlead_ingest.source.gaps import REPORTED, GapRow
from fairlead_ingest.source.offsets import Offsets

METADATA_KEY = "fairlead"
# Of contracts that judged a table's rows, the newest.
CONTRACTS_MAX = 50
_STORED = {"filtered": "left_out"}


class ContractUse(msgspec.Struct, frozen=True, kw_only=True):
    """Since which batch, and since when (ISO, UTC), this version of a contract judges what goes into the table."""

    name: str
    version: int
    batch: int
    at: str

    @property
    def title(self) -> tuple[str, int]:
        return self.name, self.version


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True, rename=_STORED):
    """What one batch brought into the table, and what of it did not come."""

    rows: int = 0
    dead_letters: int = 0
    # Of Parquet.
    bytes: int = 0
    # Messages that transforms or deduplication took no row of.
    filtered: int = 0
    # Messages that outlived their time to live before they were read.
    expired_unread: int = 0
    # How often reading had to go on at the oldest message left.
    expired_starts: int = 0
    # How old messages were when their row became visible: counts by bucket (``freshness``).
    ages: list[int] = []
    gaps: list[GapRow] = []
    # The contract that judged them; None without one that has a name.
    contract: ContractUse | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it is stored: nothing at all for a commit without a batch's rows, no gaps where there are none."""
        if self == NO_COUNTS:
            return {}
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for gap in plain["gaps"]:
            if gap["queue"] is None:
                for name in REPORTED:
                    del gap[name]
        for name in ("gaps", "contract"):
            if not plain[name]:
                del plain[name]
        return plain


NO_COUNTS = BatchCounts()


class TableTotals(msgspec.Struct, frozen=True, kw_only=True, rename=_STORED):
    """Counts that add up over the table's life, and the contracts that judged it, oldest first."""

    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0
    expired_unread: int = 0
    expired_starts: int = 0
    contracts: list[ContractUse] = []

    def plus(self, counts: BatchCounts) -> TableTotals:
        """With one more batch."""
        added = {name: count + getattr(counts, name) for name, count in self.counts().items()}
        contracts, used = self.contracts, counts.contract
        if used is not None and (not contracts or contracts[-1].title != used.title):
            contracts = [*contracts, used][-CONTRACTS_MAX:]
        return TableTotals(**added, contracts=contracts)

    def counts(self) -> dict[str, int]:
        """What adds up, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "contracts"}

    def to_dict(self) -> dict[str, Any]:
        """As it is stored: no contracts where there are none."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        if not self.contracts:
            del plain["contracts"]
        return plain


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of ours: whose batch it was, how far the table goes since, and what the batch brought."""

    reached: Offsets
    application: str = ""
    # -1: not the batch of a stream.
    batch: int = -1
    # Where the job's checkpoint is copied to, which is the same after it has begun anew; "" for one in a folder.
    checkpoint: str = ""
    # The table's commit sequence as of this commit; 0: written by a version that did not say.
    sequence: int = 0
    totals: TableTotals = TableTotals()
    counts: BatchCounts = NO_COUNTS

    def to_dict(self) -> dict[str, Any]:
        """As it is stored under ``METADATA_KEY``."""
        return {
            "reached": self.reached.to_dict(),
            "application": self.application,
            "batch": self.batch,
            **({"checkpoint": self.checkpoint} if self.checkpoint else {}),
            **({"sequence": self.sequence} if self.sequence else {}),
            "totals": self.totals.to_dict(),
            **self.counts.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit of ours as the table's log has it."""

    version: int
    timestamp_ms: int
    info: CommitInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Any commit of the table's log; ``info`` None where it is not ours."""

    version: int
    timestamp_ms: int
    info: CommitInfo | None = None

    def batch(self, application: str | None = None) -> Committed | None:
        """The entry if it is a batch of a stream, of this application where one is named."""
        info = self.info
        if info is None or info.batch < 0 or application not in (None, info.application):
            return None
        return Committed(version=self.version, timestamp_ms=self.timestamp_ms, info=info)


def read_commit_info(metadata: Mapping[str, Any]) -> CommitInfo | None:
    """What we left in one commit's metadata, None where the commit is not ours. Raises ``Stop`` where it is broken."""
    stored = metadata.get(METADATA_KEY)
    return parse_commit_info(stored) if isinstance(stored, Mapping) and "reached" in stored else None


def parse_commit_info(stored: Mapping[str, Any]) -> CommitInfo:
    """From what ``to_dict`` made, also of older versions, which left less. Raises ``Stop``."""
    try:
        return CommitInfo(
            reached=offsets.parse_offsets(stored["reached"]),
            application=str(stored.get("application", "")),
            batch=int(stored.get("batch", -1)),
            checkpoint=str(stored.get("checkpoint", "")),
            sequence=int(stored.get("sequence", 0)),
            totals=msgspec.convert(stored.get("totals", {}), TableTotals),
            counts=msgspec.convert(dict(stored), BatchCounts),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"a commit's metadata is not what this job leaves: {error}") from error


NEWEST_PROPERTY: Final = "fairlead.newest"
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


def parse_newest_commit(properties: Mapping[str, str]) -> NewestCommit | None:
    """None where no commit of ours left anything.  Raises ``Stop`` where it is broken."""
    text = properties.get(NEWEST_PROPERTY)
    if text is None:
        return None
    try:
        stored: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        if stored["v"] != 1:
            raise ValueError(f"version {stored['v']}; ours is 1")
        return NewestCommit(
            snapshot=int(stored["snapshot"]),
            number=int(stored["number"]),
            info=parse_commit_info(stored["info"]),
            batches={str(name): int(last) for name, last in stored["batches"].items()},
        )
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.Stop(
            errors.TABLE_UNFIT, f"property {NEWEST_PROPERTY} is not what this job leaves: {error}"
        ) from error


# Upper bounds in seconds; one more bucket holds what is older.
AGE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0)


def add_ages(counts: Iterable[Sequence[int]]) -> list[int]:
    """The sum of several histograms."""
    total = [0] * (len(AGE_BUCKETS) + 1)
    for one in counts:
        for index, count in enumerate(one):
            total[index] += count
    return total


def age_quantile(counts: Sequence[int], fraction: float) -> float | None:
    """The bound below which ``fraction`` of the messages lie; None without messages, inf past the last bound."""
    wanted, seen = sum(counts) * fraction, 0
    if not sum(counts):
        return None
    for bound, count in zip((*AGE_BUCKETS, float("inf")), counts, strict=True):
        seen += count
        if seen >= wanted:
            return bound
    return float("inf")
