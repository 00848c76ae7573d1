"""Makes a new version of a table: its manifests, its summary, and the request to the catalog.

The library's own appends and overwrites retry on top of commits in between, but our batches are decided for one version
and must go on top of that one. So the version is made here from the library's parts, and the catalog is asked once, on
condition that the table's head has not changed.

    manifest of the files ─▶ list of all manifests ─▶ snapshot with its summary ─▶ the catalog: if head is H, then this

Each version adds a manifest. Small manifests are joined before there are many, and versions that readers no longer need
are dropped in the same commit, so the thousandth commit costs as much as the tenth.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from fairlead_ingest.io.table.iceberg import iceberg_table

MANIFEST_BYTES: Final = 512 * 1024
"""A manifest of this size, some thousand files, is not joined with others."""
MANIFESTS_MAX: Final = 50
"""The number of small manifests at which they are joined."""
VERSIONS_KEPT: Final = 100
TRIM_EVERY: Final = 25
"""How many versions are dropped at once."""
_SUMS: Final = (("total-data-files", "data-files"), ("total-records", "records"), ("total-files-size", "files-size"))
_DIGITS_MAX: Final = 19
_COMPRESSION: Literal["deflate"] = "deflate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Added and removed files, and entries for the summary."""

    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    """Locations, all of them in the version the change is based on."""
    summary: Mapping[str, str] = field(default_factory=dict)


class RemovedFileGone(Exception):
    """A file to be removed is no longer in the table."""


class NewVersion:
    """A new version based on ``table`` as it was read; nothing is visible before ``commit``."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._head = table.current_snapshot()
        self.id = table.metadata.new_snapshot_id()
        self.number = table.metadata.next_sequence_number()
        self._uuid = uuid.uuid4()
        self._written = 0
        self._removed: list[DataFile] = []

    def commit(self, change: TableChange, properties: Mapping[str, str] | None = None) -> None:
        """Commit the change. It may have succeeded even if this raises, except for ``RemovedFileGone``."""
        manifests = self._manifests(change)
        path = self._path(f"snap-{self.id}-0-{self._uuid}.avro")
        with write_manifest_list(
            format_version=self._table.metadata.format_version,
            output_file=self._table.io.new_output(path),
            snapshot_id=self.id,
            parent_snapshot_id=self._parent,
            sequence_number=self.number,
            avro_compression=_COMPRESSION,
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = {
            "snapshot_id": self.id,
            "parent_snapshot_id": self._parent,
            "sequence_number": self.number,
            "manifest_list": path,
            "summary": self._summary(change),
            "schema_id": self._table.metadata.current_schema_id,
        }
        ref = self._table.metadata.refs.get(MAIN_BRANCH)
        kept = {"max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"}
        head = {} if ref is None else ref.model_dump(include=kept)
        head |= {"ref_name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot_id": self.id}
        updates: list[TableUpdate] = [
            *([SetPropertiesUpdate(updates=dict(properties))] if properties else []),
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot)),
            SetSnapshotRefUpdate.model_validate(head),
        ]
        old = expired(self._table, VERSIONS_KEPT, TRIM_EVERY)
        if old:
            updates.append(forget(old))
        self._table._do_commit(updates=tuple(updates), requirements=self._conditions())

    def _conditions(self) -> tuple[AssertTableUUID, AssertRefSnapshotId]:
        return (
            AssertTableUUID(uuid=self._table.metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot_id": self._parent}),
        )

    @property
    def _parent(self) -> int | None:
        return None if self._head is None else self._head.snapshot_id

    def _manifests(self, change: TableChange) -> list[ManifestFile]:
        before = [] if self._head is None else self._head.manifests(self._table.io)
        kept = self._without(before, change.removed) if change.removed else before
        kept = [each for each in kept if each.has_added_files() or each.has_existing_files() or self._is_new(each)]
        added = [_entry(ManifestEntryStatus.ADDED, self.id, file) for file in change.added]
        return [*([self._write(added)] if added else []), *self._joined(kept)]

    def _is_new(self, manifest: ManifestFile) -> bool:
        return manifest.added_snapshot_id == self.id

    def _without(self, manifests: list[ManifestFile], removed: frozenset[str]) -> list[ManifestFile]:
        """Rewrite the manifests that contain a file to remove. Raises ``RemovedFileGone``."""
        left = set(removed)
        found: list[ManifestFile] = []
        for manifest in manifests:
            is_ours = manifest.content == ManifestContent.DATA
            hit = (
                left & {part.location for part in iceberg_table.manifest_parts(self._table, manifest)}
                if is_ours
                else set()
            )
            if not hit:
                found.append(manifest)
                continue
            left -= hit
            again = []
            for entry in iceberg_table.manifest_entries(self._table, manifest):
                if entry.data_file.file_path in hit:
                    self._removed.append(entry.data_file)
                    again.append(_again(ManifestEntryStatus.DELETED, self.id, entry))
                else:
                    again.append(_again(ManifestEntryStatus.EXISTING, entry.snapshot_id, entry))
            found.append(self._write(again, manifest.partition_spec_id))
        if left:
            raise RemovedFileGone(f"{len(left)} files are gone, {min(left)} among them")
        return found

    def _joined(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Join small manifests into one if there are many."""
        spec = self._table.metadata.default_spec_id
        small = [
            each
            for each in manifests
            if each.content == ManifestContent.DATA
            and each.partition_spec_id == spec
            and each.manifest_length < MANIFEST_BYTES
            and not self._is_new(each)
        ]
        if len(small) < MANIFESTS_MAX:
            return manifests
        paths = {each.manifest_path for each in small}
        again = [
            _again(ManifestEntryStatus.EXISTING, entry.snapshot_id, entry)
            for manifest in small
            for entry in iceberg_table.manifest_entries(self._table, manifest)
        ]
        rest = [each for each in manifests if each.manifest_path not in paths]
        return [*([self._write(again)] if again else []), *rest]

    def _write(self, entries: list[ManifestEntry], spec_id: int | None = None) -> ManifestFile:
        with self._writer(spec_id) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, spec_id: int | None) -> ManifestWriter:
        metadata = self._table.metadata
        path = self._path(f"{self._uuid}-m{self._written}.avro")
        self._written += 1
        return write_manifest(
            format_version=metadata.format_version,
            spec=metadata.spec() if spec_id is None else metadata.specs()[spec_id],
            schema=metadata.schema(),
            output_file=self._table.io.new_output(path),
            snapshot_id=self.id,
            avro_compression=_COMPRESSION,
        )

    def _path(self, name: str) -> str:
        return self._table.location_provider().new_metadata_location(name)

    def _summary(self, change: TableChange) -> Summary:
        sums = {"data-files": len(change.added) - len(self._removed)}
        sums["records"] = _rows(change.added) - _rows(self._removed)
        sums["files-size"] = _bytes(change.added) - _bytes(self._removed)
        before = totals(self._table)
        said = {name: str(before[name] + sums[short]) for name, short in _SUMS}
        said |= {
            "added-data-files": str(len(change.added)),
            "added-records": str(_rows(change.added)),
            "added-files-size": str(_bytes(change.added)),
        }
        if self._removed:
            said |= {
                "deleted-data-files": str(len(self._removed)),
                "deleted-records": str(_rows(self._removed)),
                "removed-files-size": str(_bytes(self._removed)),
            }
        operation = Operation.REPLACE if self._removed else Operation.APPEND
        return Summary(operation=operation, **{**said, **change.summary})


def number(table: Table) -> int:
    """The number of the current version; 0 if there is none yet."""
    head = table.current_snapshot()
    return 0 if head is None else head.sequence_number or 0


def totals(table: Table) -> dict[str, int]:
    """Files, rows and bytes of the current version, from its summary or else from its manifests."""
    head = table.current_snapshot()
    summary = None if head is None else head.summary
    said = {} if summary is None else {name: _whole(str(summary[name])) for name, _ in _SUMS}
    found = {name: value for name, value in said.items() if value is not None}
    if len(found) == len(_SUMS):
        return found
    parts = iceberg_table.list_parts(table)
    sums = (len(parts), sum(part.rows for part in parts), sum(part.size for part in parts))
    return {name: value for (name, _), value in zip(_SUMS, sums, strict=True)}


def expired(table: Table, kept: int, at_once: int = 1, older_than_ms: int | None = None) -> list[int]:
    """The versions beyond the newest ``kept`` (or the number in the table's own property), oldest first, without those
    named by a branch or tag. Empty while there are fewer than ``at_once``."""
    own = _whole(table.properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, ""))
    kept = kept if own is None else max(1, own)
    protected = {ref.snapshot_id for ref in table.metadata.refs.values()}
    oldest_first = sorted(table.metadata.snapshots, key=lambda each: (each.sequence_number or 0, each.timestamp_ms))
    found = [
        each.snapshot_id
        for each in oldest_first[: max(0, len(oldest_first) - kept)]
        if each.snapshot_id not in protected and (older_than_ms is None or each.timestamp_ms < older_than_ms)
    ]
    return found if len(found) >= at_once else []


def forget(ids: Sequence[int]) -> RemoveSnapshotsUpdate:
    """The request to the catalog to drop these versions."""
    return RemoveSnapshotsUpdate.model_validate({"snapshot_ids": list(ids)})


def _whole(text: str) -> int | None:
    """Parse a number that others may have written; None if it is not a 64-bit number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS_MAX else None


def _entry(status: ManifestEntryStatus, snapshot_id: int | None, file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=snapshot_id, sequence_number=None, file_sequence_number=None, data_file=file
    )


def _again(status: ManifestEntryStatus, snapshot_id: int | None, entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _bytes(files: Sequence[DataFile]) -> int:
    return sum(file.file_size_in_bytes for file in files)
