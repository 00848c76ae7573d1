"""Records what our commits contain: counts in the summary of each, positions only once, in the table's properties.

Positions in each summary would be stored for each of a hundred retained versions, and every commit rewrites them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from fairlead_ingest.io.table.iceberg.versions import NewVersion
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.commit_info import METADATA_KEY, CommitInfo, Lineage, LogEntry, NewestCommit, TableVersion


def account_of(
    version: NewVersion, before: NewestCommit | None, decided: Append
) -> tuple[dict[str, str], dict[str, str]]:
    """The entries for the version's summary and for the table's properties."""
    if decided.info is None:
        return {}, {}
    brief: CommitInfo = msgspec.structs.replace(decided.info, reached=Offsets())
    # Only the application's batch is needed here; the commit sequence is part of ``info``.
    batches = {} if decided.info.batch < 0 else {decided.info.application: decided.info.batch}
    following = commit_info.following(
        before, snapshot=version.id, number=version.number, info=decided.info, batches=batches
    )
    return {METADATA_KEY: msgspec.json.encode(brief.to_dict()).decode()}, {
        commit_info.NEWEST_PROPERTY: following.encode()
    }


def newest(table: Table) -> tuple[NewestCommit | None, Lineage]:
    """Our newest commit, and whether the current version is based on it."""
    found = commit_info.parse_newest_commit(table.properties)
    if found is None:
        return None, Lineage.CURRENT
    line = found.line(
        TableVersion(each.snapshot_id, each.parent_snapshot_id, each.sequence_number or 0) for each in _line(table)
    )
    return found, line


def entries(table: Table, limit: int) -> Iterator[LogEntry]:
    """The last versions, newest first; only our newest one has positions."""
    ours, _ = newest(table)
    for _, snapshot in zip(range(limit), _line(table), strict=False):
        text = None if snapshot.summary is None else snapshot.summary[METADATA_KEY]
        info = None if text is None else _info(str(text))
        if ours is not None and ours.snapshot == snapshot.snapshot_id:
            info = ours.info
        yield LogEntry(version=snapshot.sequence_number or 0, timestamp_ms=snapshot.timestamp_ms, info=info)


def _info(text: str) -> CommitInfo | None:
    """The commit's info; None if another writer stored something else there."""
    try:
        return commit_info.read_commit_info({METADATA_KEY: msgspec.json.decode(text)})
    except msgspec.DecodeError:
        return None


def _line(table: Table) -> Iterator[Snapshot]:
    """The current version and its retained ancestors, newest first."""
    each = table.current_snapshot()
    while each is not None:
        yield each
        each = None if each.parent_snapshot_id is None else table.snapshot_by_id(each.parent_snapshot_id)
