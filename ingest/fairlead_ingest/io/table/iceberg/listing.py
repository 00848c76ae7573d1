"""The files of a table's version, as its manifests tell them; each manifest is read once, for none ever changes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import StringType

MANIFESTS_KEPT: Final = 512
_EPOCH: Final = datetime.date(1970, 1, 1)


class Part(NamedTuple):
    """One file; ``highest_id`` "" where the manifest has no bound."""

    location: str
    size: int
    rows: int
    topic: str
    date: datetime.date | None
    number: int
    highest_id: str


class _Manifest:
    """A manifest to look up by its name, with what it takes to read it."""

    def __init__(self, manifest: ManifestFile, io: FileIO, id_field: int) -> None:
        self.manifest, self.io, self.id_field = manifest, io, id_field

    def __hash__(self) -> int:
        return hash(self.manifest.manifest_path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Manifest) and other.manifest.manifest_path == self.manifest.manifest_path


def manifests(table: Table) -> list[ManifestFile]:
    """Of the current version, in its order."""
    head = table.current_snapshot()
    return [] if head is None else head.manifests(table.io)


def has_deletes(table: Table) -> bool:
    """Another engine has marked rows as deleted in files of their own."""
    return any(each.content == ManifestContent.DELETES for each in manifests(table))


def parts(table: Table) -> list[Part]:
    """Every file of the current version, oldest first."""
    found = [part for each in manifests(table) if each.content == ManifestContent.DATA for part in of(table, each)]
    return sorted(found, key=lambda part: part.number)


def of(table: Table, manifest: ManifestFile) -> tuple[Part, ...]:
    """What is left of the files in one manifest."""
    schema = table.schema()
    id_field = schema.find_field("_id").field_id if "_id" in schema.column_names else -1
    return _read(_Manifest(manifest, table.io, id_field))


def entries(table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """As the library knows them, to be written again."""
    yield from manifest.fetch_manifest_entry(table.io, discard_deleted=True)


@lru_cache(maxsize=MANIFESTS_KEPT)
def _read(wanted: _Manifest) -> tuple[Part, ...]:
    found = wanted.manifest.fetch_manifest_entry(wanted.io, discard_deleted=True)
    return tuple(_part(each.data_file, each.sequence_number or 0, wanted.id_field) for each in found)


def _part(file: DataFile, number: int, id_field: int) -> Part:
    bound = (file.upper_bounds or {}).get(id_field)
    topic, day = file.partition[0], file.partition[1]
    return Part(
        location=file.file_path,
        size=file.file_size_in_bytes,
        rows=file.record_count,
        topic="" if topic is None else str(topic),
        date=None if day is None else _EPOCH + datetime.timedelta(days=int(day)),
        number=number,
        highest_id="" if bound is None else str(from_bytes(StringType(), bound)),
    )
