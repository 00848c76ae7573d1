"""What our commits record in the table's metadata, including the ages of messages.

In the table's log it is JSON under one key:

    {"fairlead": {"reached": {…}, "application": "fairlead:…", "batch": 12, "totals": {…}, "rows": 912, …}}

Only ``read_commit_info`` and ``CommitInfo.to_dict`` know these stored names.

Iceberg rewrites its whole metadata with each commit. Positions of hundreds of topics in each of a hundred retained
snapshots would be megabytes per commit. So a snapshot's summary has only the counts of its batch; what the next commit
must know (positions, last batches, totals) is stored once, in a property of the table (``NewestCommit``), with the id
of its snapshot. If others roll back snapshots, the property is about rows that are gone, which the chain of snapshots
shows:

    4 ours ◀─ 5 ours (property) ◀─ 6 compaction      the property is valid
    4 ours ◀─ 6 of others                             5 was rolled back: positions are derived from rows
    … ◀─ 9 of others                                  5 has expired: the same, and the log is truncated

Ages are the seconds from ``enqueued_at`` at the edge to the commit that makes the row visible, as counts in fixed
buckets. Unlike percentiles, counts can be added over tasks, batches and jobs: tasks count, the commit records the sums,
and metrics and reports read them from there.
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
# How many of the newest contracts are recorded.
CONTRACTS_MAX = 50
_STORED = {"filtered": "left_out"}


class ContractUse(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a contract, with the batch and time (ISO, UTC) from which it is used for the table."""

    name: str
    version: int
    batch: int
    at: str

    @property
    def title(self) -> tuple[str, int]:
        return self.name, self.version


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True, rename=_STORED):
    """What one batch added to the table, and which of its messages did not become rows."""

    rows: int = 0
    dead_letters: int = 0
    # Bytes of the Parquet files.
    bytes: int = 0
    # Messages that transforms or deduplication left out.
    filtered: int = 0
    # Messages that expired before they were read.
    expired_unread: int = 0
    # How often reading skipped to the oldest message left.
    expired_starts: int = 0
    # Counts by ``AGE_BUCKETS`` of how old messages were when their row became visible.
    ages: list[int] = []
    gaps: list[GapRow] = []
    # The contract that judged the messages; None if it has no name.
    contract: ContractUse | None = None

    def to_dict(self) -> dict[str, Any]:
        """The stored form; empty for a commit outside a batch."""
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
    """The totals over the table's life, and the contracts used for it, oldest first."""

    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0
    expired_unread: int = 0
    expired_starts: int = 0
    contracts: list[ContractUse] = []

    def plus(self, counts: BatchCounts) -> TableTotals:
        """The totals after one more batch."""
        added = {name: count + getattr(counts, name) for name, count in self.counts().items()}
        contracts, used = self.contracts, counts.contract
        if used is not None and (not contracts or contracts[-1].title != used.title):
            contracts = [*contracts, used][-CONTRACTS_MAX:]
        return TableTotals(**added, contracts=contracts)

    def counts(self) -> dict[str, int]:
        """The totals by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "contracts"}

    def to_dict(self) -> dict[str, Any]:
        """The stored form."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        if not self.contracts:
            del plain["contracts"]
        return plain


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of ours: its batch, the positions reached, and the counts."""

    reached: Offsets
    application: str = ""
    # -1 if it is not a batch of a stream.
    batch: int = -1
    # The store path of the job's checkpoint, which outlives a new local one; "" for a checkpoint in a folder.
    checkpoint: str = ""
    # The table's commit sequence; 0 if an older version wrote the commit.
    sequence: int = 0
    totals: TableTotals = TableTotals()
    counts: BatchCounts = NO_COUNTS

    def to_dict(self) -> dict[str, Any]:
        """The form stored under ``METADATA_KEY``."""
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
    """A commit of ours in the table's log."""

    version: int
    timestamp_ms: int
    info: CommitInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Any commit in the table's log; ``info`` is None if it is not ours."""

    version: int
    timestamp_ms: int
    info: CommitInfo | None = None

    def batch(self, application: str | None = None) -> Committed | None:
        """The entry as a batch of a stream (of ``application``, if given), else None."""
        info = self.info
        if info is None or info.batch < 0 or application not in (None, info.application):
            return None
        return Committed(version=self.version, timestamp_ms=self.timestamp_ms, info=info)


def read_commit_info(metadata: Mapping[str, Any]) -> CommitInfo | None:
    """Our info in a commit's metadata, None if the commit is not ours. Raises ``Stop`` if it is invalid."""
    stored = metadata.get(METADATA_KEY)
    return parse_commit_info(stored) if isinstance(stored, Mapping) and "reached" in stored else None


def parse_commit_info(stored: Mapping[str, Any]) -> CommitInfo:
    """The inverse of ``CommitInfo.to_dict``, also for older versions with fewer fields. Raises ``Stop``."""
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
        raise errors.Stop(errors.TABLE_UNFIT, f"a commit's metadata is not in this job's format: {error}") from error


NEWEST_PROPERTY: Final = "fairlead.newest"
BATCHES_MAX: Final = 100
"""How many applications are remembered; a new checkpoint is a new application."""


class TableVersion(NamedTuple):
    """One version of a table; ``number`` increases with each version."""

    id: int
    parent: int | None
    number: int


class Lineage(Enum):
    """How our newest commit relates to the table's current version."""

    CURRENT = "current"
    TAKEN_BACK = "taken back"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestCommit:
    """Our newest commit; ``batches`` has the last batch of each application, in the order of their newest commits."""

    snapshot: int
    number: int
    info: CommitInfo
    batches: Mapping[str, int]

    def line(self, newest_first: Iterable[TableVersion]) -> Lineage:
        """The relation to the current version, given with its retained ancestors, newest first."""
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
    """The value that the commit ``snapshot`` records."""
    known = {} if before is None else {name: last for name, last in before.batches.items() if name not in batches}
    kept = list(known.items())[-BATCHES_MAX:]
    return NewestCommit(snapshot=snapshot, number=number, info=info, batches={**dict(kept), **batches})


def parse_newest_commit(properties: Mapping[str, str]) -> NewestCommit | None:
    """Our newest commit from the table's properties, None if there is none. Raises ``Stop`` if it is invalid."""
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
            errors.TABLE_UNFIT, f"property {NEWEST_PROPERTY} is not in this job's format: {error}"
        ) from error


# Upper bounds in seconds; one more bucket has the older ones.
AGE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0)


def add_ages(counts: Iterable[Sequence[int]]) -> list[int]:
    """The sum of several histograms."""
    total = [0] * (len(AGE_BUCKETS) + 1)
    for one in counts:
        for index, count in enumerate(one):
            total[index] += count
    return total


def age_quantile(counts: Sequence[int], fraction: float) -> float | None:
    """The bound below which ``fraction`` of the messages are; None without messages, inf past the last bound."""
    wanted, seen = sum(counts) * fraction, 0
    if not sum(counts):
        return None
    for bound, count in zip((*AGE_BUCKETS, float("inf")), counts, strict=True):
        seen += count
        if seen >= wanted:
            return bound
    return float("inf")
