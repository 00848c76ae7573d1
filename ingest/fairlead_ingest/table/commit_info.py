"""What we leave in the metadata of each commit, typed.

In the table's log it is plain JSON under one key, beside what others leave there:

    {"fairlead": {"reached": {…}, "application": "fairlead:…", "batch": 12, "totals": {…}, "rows": 912, …}}

``read`` and ``CommitInfo.to_dict`` are the only places that know these stored names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def read(metadata: Mapping[str, Any]) -> CommitInfo | None:
    """What we left in one commit's metadata, None where the commit is not ours. Raises ``Stop`` where it is broken."""
    stored = metadata.get(METADATA_KEY)
    return parse(stored) if isinstance(stored, Mapping) and "reached" in stored else None


def parse(stored: Mapping[str, Any]) -> CommitInfo:
    """From what ``to_dict`` made, also of older versions, which left less. Raises ``Stop``."""
    try:
        return CommitInfo(
            reached=offsets.parse(stored["reached"]),
            application=str(stored.get("application", "")),
            batch=int(stored.get("batch", -1)),
            checkpoint=str(stored.get("checkpoint", "")),
            sequence=int(stored.get("sequence", 0)),
            totals=msgspec.convert(stored.get("totals", {}), TableTotals),
            counts=msgspec.convert(dict(stored), BatchCounts),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"a commit's metadata is not what this job leaves: {error}") from error
