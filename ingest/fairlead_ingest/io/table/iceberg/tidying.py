"""Removes expired versions, their manifests, and files that no version needs, such as those of killed tasks.

Commits drop versions (``versions``) but delete no files. They are deleted here, once they are old enough that no reader
uses them. ``vacuum`` checks all files; a running job deletes only metadata, from time to time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID

from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.iceberg import file_io, versions
from fairlead_ingest.table.store_path import Place

METADATA: Final = "metadata"
TIDY_EVERY: Final = 500
"""How often a running job deletes old metadata, in commits."""
METADATA_SECONDS: Final = 3600
"""Minimum age of deleted metadata; a reader takes less time to plan its query."""


def vacuum(table: Table, place: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files older than the retention that no kept version needs; return their paths below ``place``."""
    before = time.time() - retention_hours * 3600
    old = versions.expired(table, 1, older_than_ms=int(before * 1000))
    if old and not dry_run:
        table._do_commit(
            updates=(versions.forget(old),),
            requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),),
        )
        old = []
    needed = _needed(table, frozenset(old), with_files=True)
    found = sorted(path for path, moment in _below(place) if moment < before and _location(table, path) not in needed)
    return _delete(table, found) if not dry_run else found


def tidy_metadata(table: Table, place: Place) -> list[str]:
    """The same only for metadata, which grows with every commit."""
    before = time.time() - METADATA_SECONDS
    needed = _needed(table, frozenset(), with_files=False)
    under = f"{METADATA}/"
    return _delete(
        table,
        [
            f"{under}{path}"
            for path, moment in _below(place / METADATA)
            if moment < before and _location(table, f"{under}{path}") not in needed
        ],
    )


def _needed(table: Table, without: frozenset[int], *, with_files: bool) -> set[str]:
    """The locations that some version needs."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    metadata = table.metadata
    found |= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in without:
            continue
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            if with_files:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
    return {file_io.plain(each) for each in found | seen}


def _below(place: Place) -> Iterator[tuple[str, float]]:
    if isinstance(place, Path):
        for path in place.rglob("*"):
            if path.is_file():
                yield str(path.relative_to(place)), file_io.age(path)
        return
    for name, moment in object_store.below(place):
        if not name.endswith("/"):
            yield name, moment


def _location(table: Table, path: str) -> str:
    return f"{file_io.plain(table.metadata.location)}/{path}"


def _delete(table: Table, paths: Iterable[str]) -> list[str]:
    gone = list(paths)
    for path in gone:
        table.io.delete(f"{table.metadata.location.rstrip('/')}/{path}")
    return gone
