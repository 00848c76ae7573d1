"""Rows marked as deleted in separate files, as engines with merge-on-read do it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def mark_deleted(
    table: Table, positions: Mapping[str, Sequence[int]], content: DataFileContent = DataFileContent.POSITION_DELETES
) -> None:
    """One file with positions of rows by data file, and the version that has it."""
    head = table.current_snapshot()
    assert head is not None
    files = [task.file for task in table.scan().plan_files()]
    partition = next(file.partition for file in files if file.file_path in positions)
    name = f"{table.location()}/data/{uuid.uuid4().hex}-deletes.parquet"
    rows = [{"file_path": each, "pos": pos} for each in sorted(positions) for pos in sorted(positions[each])]
    with table.io.new_output(name).create() as stream:
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), stream)
        size = stream.tell()
    file = DataFile.from_args(
        content=content, file_path=name, file_format=FileFormat.PARQUET, partition=partition, record_count=len(rows),
        file_size_in_bytes=size, spec_id=table.spec().spec_id, equality_ids=[1],
    )  # fmt: skip
    snapshot, number = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4().hex}-m0.avro")
    with _Deletes(table.spec(), table.schema(), output, snapshot, "deflate") as writer:
        writer.add_entry(_added(snapshot, file))
    manifest = writer.to_manifest_file()
    path = f"{table.location()}/metadata/snap-{snapshot}-0-{uuid.uuid4().hex}.avro"
    with write_manifest_list(2, table.io.new_output(path), snapshot, head.snapshot_id, number, "deflate") as listing:
        listing.add_manifests([manifest, *head.manifests(table.io)])
    sums = {key: value for key, value in (head.summary or Summary(Operation.APPEND)).additional_properties.items()}
    kept = {key: value for key, value in sums.items() if key.startswith("total-")}
    made: dict[str, Any] = {
        "snapshot_id": snapshot, "parent_snapshot_id": head.snapshot_id, "sequence_number": number,
        "manifest_list": path, "summary": Summary(Operation.DELETE, **kept), "schema_id": table.schema().schema_id,
    }  # fmt: skip
    ref = {"ref_name": "main", "type": "branch", "snapshot_id": snapshot}
    updates = (
        AddSnapshotUpdate(snapshot=Snapshot.model_validate(made)),
        SetSnapshotRefUpdate.model_validate(ref),
    )
    table._do_commit(updates=updates, requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),))


def _added(snapshot: int, file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, sequence_number=None, file_sequence_number=None,
        data_file=file,
    )  # fmt: skip
