"""Open catalogs and tables, and the files of a table's version from its manifests.

Each thread has its own connections, reopened after an error. Manifests never change and are cached.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, NamedTuple

from pyiceberg.catalog import Catalog as Opened
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import StringType

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import catalogs, file_io
from fairlead_ingest.table import catalog as catalog_names
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT, Place, Storage, StorePath


class _TablesOfThread(threading.local):
    """Separate for each thread, so that no other thread reloads a table between decision and commit."""

    def __init__(self) -> None:
        self.catalogs: dict[Storage, Opened] = {}
        self.tables: dict[Place, Table] = {}


class OpenTables:
    """The open tables of one catalog; None in tasks, which do not use it."""

    def __init__(self, catalog: Catalog | None) -> None:
        self._catalog = catalog
        self._kept = _TablesOfThread()

    def find(self, table: Place) -> Table | None:
        """The current table; None if there is no table or no catalog yet. Raises ``Stop``, ``Wait``."""
        if self._is_catalog_missing():
            return None  # connecting would create it
        with self.explained(table):
            try:
                found = self.catalog(table).load_table(self.identifier(table))
            except NoSuchTableError:
                self._kept.tables.pop(table, None)
                return None
            if file_io.plain(found.location()) != file_io.plain(file_io.location_of(table)):
                raise errors.Stop(
                    errors.TABLE_UNFIT,
                    f"{table}: the catalog has {'.'.join(self.identifier(table))} at {found.location()}; set table to"
                    " that, or use another namespace",
                )
            file_io.refuse_elsewhere(table, found.properties)
            self._kept.tables[table] = found
            return found

    def required(self, table: Place) -> Table:
        """The current table. Raises ``Stop`` if there is none."""
        found = self.find(table)
        if found is None:
            lacks = f"the catalog {self._settings().uri} does not exist" if self._is_catalog_missing() else ""
            raise errors.no_table(table, lacks)
        return found

    def when_decided(self, table: Place) -> Table:
        """The table as last read, so that commits made since then collide in the catalog."""
        return self._kept.tables.get(table) or self.required(table)

    def catalog(self, table: Place) -> Opened:
        """The catalog of ``table``, opened if necessary."""
        storage = table.storage if isinstance(table, StorePath) else FROM_ENVIRONMENT
        found = self._kept.catalogs.get(storage)
        if found is None:
            found = self._kept.catalogs[storage] = catalogs.connect(self._settings(), storage)
        return found

    def identifier(self, table: Place) -> tuple[str, ...]:
        """The name of ``table`` in the catalog."""
        return catalog_names.identifier(self._settings(), table)

    @contextmanager
    def explained(self, table: Place) -> Iterator[None]:
        """Explain errors of catalog and store; both are reopened after an error."""
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError):
            self._forget(table)
            raise
        except catalogs.FAILURES as error:
            self._forget(table)
            raise catalogs.explain(self._settings(), error) from error
        except (errors.Stop, errors.Wait):
            self._forget(table)
            raise

    @contextmanager
    def committing(self, table: Place) -> Iterator[None]:
        """The same for a commit: ``Collided`` means that it may have succeeded and the table must be read again."""
        try:
            yield
        except CommitFailedException as error:
            raise Collided(f"{table}: another writer committed at the same moment ({error})") from error
        except (*catalogs.FAILURES, errors.Wait) as error:
            explained = catalogs.explain(self._settings(), error)
            self._forget(table)
            if isinstance(explained, errors.Stop):
                raise explained from error
            raise Collided(f"{table}: the catalog's answer is missing ({explained})", unanswered=explained) from error
        finally:
            self._kept.tables.pop(table, None)

    def _settings(self) -> Catalog:
        if self._catalog is None:
            raise errors.Stop(errors.BAD_OPTION, '[catalog] uri: required with table_format = "iceberg"')
        return self._catalog

    def _is_catalog_missing(self) -> bool:
        return self._catalog is not None and catalogs.is_missing(self._catalog)

    def _forget(self, table: Place) -> None:
        self._kept.tables.pop(table, None)
        while self._kept.catalogs:
            self._kept.catalogs.popitem()[1].close()


MANIFESTS_KEPT: Final = 512
_EPOCH: Final = datetime.date(1970, 1, 1)


class Part(NamedTuple):
    """One data file; ``highest_id`` is "" if the manifest has no bound."""

    location: str
    size: int
    rows: int
    topic: str
    date: datetime.date | None
    number: int
    highest_id: str


class _Manifest:
    """A manifest as a cache key, with what is needed to read it."""

    def __init__(self, manifest: ManifestFile, io: FileIO, id_field: int) -> None:
        self.manifest, self.io, self.id_field = manifest, io, id_field

    def __hash__(self) -> int:
        return hash(self.manifest.manifest_path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Manifest) and other.manifest.manifest_path == self.manifest.manifest_path


def manifests(table: Table) -> list[ManifestFile]:
    """The manifests of the current version, in order."""
    head = table.current_snapshot()
    return [] if head is None else head.manifests(table.io)


def has_deletes(table: Table) -> bool:
    """Whether another engine has marked rows as deleted in separate files."""
    return any(each.content == ManifestContent.DELETES for each in manifests(table))


def list_parts(table: Table) -> list[Part]:
    """The data files of the current version, oldest first."""
    found = [
        part
        for each in manifests(table)
        if each.content == ManifestContent.DATA
        for part in manifest_parts(table, each)
    ]
    return sorted(found, key=lambda part: part.number)


def manifest_parts(table: Table, manifest: ManifestFile) -> tuple[Part, ...]:
    """The live files of one manifest."""
    schema = table.schema()
    id_field = schema.find_field("_id").field_id if "_id" in schema.column_names else -1
    return _read_manifest(_Manifest(manifest, table.io, id_field))


def manifest_entries(table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """The live entries of a manifest, as the library has them, to write them again."""
    yield from manifest.fetch_manifest_entry(table.io, discard_deleted=True)


@lru_cache(maxsize=MANIFESTS_KEPT)
def _read_manifest(wanted: _Manifest) -> tuple[Part, ...]:
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
