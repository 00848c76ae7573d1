"""Iceberg tables in a catalog, as one more table format: made here, looked at here, committed to here.

    data files     written by tasks, as for every format; seen by no reader before a version names them
    a version      manifests and a summary beside them, written by the driver (``versions``)
    the commit     one step of the catalog, on condition that the table's head is the one that was looked at

Whatever goes wrong in a commit, it may stand: the answer alone can be lost.  Nothing is assumed; we look again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyiceberg.catalog import Catalog as Opened
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Snapshot as TableVersion

from fairlead_ingest import errors
from fairlead_ingest.io.table import store_filesystem, table_format
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile, sync_all
from fairlead_ingest.io.table.iceberg import catalogs, columns, file_io, listing, tidying, versions
from fairlead_ingest.io.table.iceberg.listing import Part
from fairlead_ingest.io.table.iceberg.versions import Change, NewVersion
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import catalog as catalog_names
from fairlead_ingest.table import commit_info, newest_commit
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import Append, Collided, TableState
from fairlead_ingest.table.commit_info import METADATA_KEY, CommitInfo, LogEntry
from fairlead_ingest.table.newest_commit import Line, NewestCommit, Snapshot
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT, Place, Storage, StorePath

METADATA_VERSIONS_MAX: Final = 20
"""Each version's `metadata.json` is whole; so many older ones are kept."""
ENSURE_TRIES: Final = 5
PROPERTIES: Final = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(METADATA_VERSIONS_MAX),
    TableProperties.MIN_SNAPSHOTS_TO_KEEP: str(versions.VERSIONS_KEPT),
    TableProperties.PARQUET_COMPRESSION: "zstd",
}
FORMAT_VERSION_MAX: Final = 2


class _Kept(threading.local):
    """Catalogs and tables, open; of one thread each, for who has looked and commits must not be moved on in between."""

    def __init__(self) -> None:
        self.catalogs: dict[Storage, Opened] = {}
        self.tables: dict[Place, Table] = {}


class IcebergFormat:
    """Behind ``TableFormat``; the tables of one catalog."""

    def __init__(self, catalog: Catalog | None) -> None:
        self._catalog = catalog
        self._kept = _Kept()

    # --- what a job does

    def ensure(self, table: Place, schema: pa.Schema) -> None:
        """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop``, ``Wait``."""
        for _ in range(ENSURE_TRIES):
            with self._explained(table):
                try:
                    return self._ensure(table, schema)
                except (CommitFailedException, TableAlreadyExistsError):
                    continue  # another job was first; the next look sees what it made
        raise errors.Wait(errors.CATALOG_AWAY, f"{table}: other jobs change its columns all the time")

    def writing(self, table: Place) -> PartitionedFiles:
        """Files in their place at once: readers see what the current version names, and nothing else."""
        return PartitionedFiles(table, is_whole=True)

    def state(self, table: Place, application: str) -> TableState:
        """What the current version says; nothing where there is no table."""
        found = self._open(table)
        if found is None:
            return TableState()
        with self._explained(table):
            newest, line = _newest(found)
            if newest is None:
                return TableState(reached=self._by_rows(table, found))
            batch = newest.batches.get(application)
            return TableState(
                batch=-1 if batch is None else batch,
                reached=newest.info.reached if line is Line.CURRENT else self._by_rows(table, found),
                commit_sequence=newest.info.sequence,
                totals=newest.info.totals,
                is_cut=line is Line.CUT and batch is not None,
            )

    def append(self, table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
        """All of ``files``, the account and the summary, or nothing. Raises ``Collided``, ``Stop``, ``Wait``."""
        target = self._kept.tables.get(table) or self._required(table)
        before, _ = _newest(target)
        if not decided.follows(0 if before is None else before.info.sequence):
            raise Collided(f"{table}: another writer has committed since")
        if isinstance(table, Path):
            sync_all({(table / file.path).parent for file in files})
        schema, spec = target.schema(), target.spec()
        added = [columns.data_file(file, file_io.location_of(table), schema, spec) for file in files]
        version = NewVersion(target)
        summary, properties = _account(version, before, decided)
        with self._committing(table):
            version.commit(Change(added=added, summary=summary), properties)
        if version.number % tidying.TIDY_EVERY == 0:
            with self._explained(table):
                tidying.tidy_metadata(target, table)

    def replace(self, table: Place, removed: Sequence[Part], files: Sequence[WrittenFile]) -> None:
        """Other files with the same rows, in one version; ``table`` as it was looked at last. Raises ``Collided`` where
        another was first, ``versions.Gone`` where some of ``removed`` are in it no more."""
        target = self._required(table)
        schema, spec = target.schema(), target.spec()
        added = [columns.data_file(file, file_io.location_of(table), schema, spec) for file in files]
        with self._committing(table):
            NewVersion(target).commit(Change(added=added, removed=frozenset(each.location for each in removed)))

    # --- what is in a table

    def reached(self, table: Place) -> Offsets:
        """How far the table goes per topic; nowhere where there is none."""
        return self.state(table, "").reached

    def highest_ids(self, table: Place) -> dict[str, str]:
        """By topic, the highest id that the bounds of its files say."""
        highest: dict[str, str] = {}
        for part in self.parts(table):
            if part.highest_id > highest.get(part.topic, ""):
                highest[part.topic] = part.highest_id
        return highest

    def last_entries(self, table: Place, limit: int) -> list[LogEntry]:
        """The newest versions, newest first; only the newest of ours says positions too."""
        found = self._open(table)
        if found is None:
            return []
        with self._explained(table):
            newest, _ = _newest(found)
            entries: list[LogEntry] = []
            for snapshot in _line(found):
                if len(entries) == limit:
                    break
                text = None if snapshot.summary is None else snapshot.summary[METADATA_KEY]
                info = None if text is None else commit_info.read({METADATA_KEY: msgspec.json.decode(str(text))})
                if newest is not None and newest.snapshot == snapshot.snapshot_id:
                    info = newest.info
                entries.append(
                    LogEntry(version=snapshot.sequence_number or 0, timestamp_ms=snapshot.timestamp_ms, info=info)
                )
            return entries

    def version(self, table: Place) -> int | None:
        """The number of the current version, None where there is no table."""
        found = self._open(table)
        return None if found is None else _number(found)

    def size(self, table: Place) -> Size | None:
        """What its summary says is in the table, None where there is none."""
        found = self._open(table)
        if found is None:
            return None
        with self._explained(table):
            sums = versions.totals(found)
            return Size(
                version=_number(found),
                files=sums["total-data-files"],
                rows=sums["total-records"],
                bytes=sums["total-files-size"],
            )

    def files(self, table: Place) -> list[tuple[str, str]]:
        """(path below the table, topic) of every file, oldest first."""
        return [(file_io.relative(table, part.location), part.topic) for part in self.parts(table)]

    def parts(self, table: Place) -> list[Part]:
        """Every file, oldest first; empty where there is no table."""
        found = self._open(table)
        if found is None:
            return []
        with self._explained(table):
            return listing.parts(found)

    def dataset(self, table: Place) -> ds.Dataset | None:
        """The rows of the current version, None where there is no table."""
        found = self._open(table)
        if found is None:
            return None
        with self._explained(table):
            return self._dataset(table, found)

    def column_names(self, table: Place) -> list[str]:
        """Raises ``Stop`` where there is no table."""
        return list(self._required(table).schema().column_names)

    def rows_of(self, table: Place, parts: Sequence[Part]) -> ds.Dataset:
        """The rows of some of its files."""
        return _files_dataset(table, columns.to_arrow(self._required(table).schema()), parts)

    def has_deletes(self, table: Place) -> bool:
        """Another engine has marked rows as deleted, beside the files that hold them."""
        found = self._required(table)
        with self._explained(table):
            return listing.has_deletes(found)

    def vacuum(self, table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
        found = self._open(table)
        if found is None:
            return []
        with self._explained(table):
            return tidying.vacuum(found, table, retention_hours=retention_hours, dry_run=dry_run)

    def probe(self, table: Place) -> None:
        """Ask the catalog for ``table``, as a job will. Raises ``Stop`` where a setting is wrong, ``Wait`` where the
        catalog does not answer now."""
        self._open(table)

    # --- inside

    def _ensure(self, table: Place, schema: pa.Schema) -> None:
        found = self._open(table)
        if found is None:
            self._create(table, schema)
            return
        held = found.schema()
        if not columns.is_partitioned_as_ours(held, found.spec()):
            raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by _topic, _date")
        if found.format_version > FORMAT_VERSION_MAX:
            raise errors.Stop(
                errors.TABLE_UNFIT, f"{table}: an Iceberg table of version {found.format_version}; ours are version 2"
            )
        missing = columns.missing(table, held, schema)
        if TableProperties.DEFAULT_NAME_MAPPING not in found.properties:
            with found.transaction() as transaction:
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: held.name_mapping.model_dump_json()})
        if missing:
            grown = columns.to_iceberg(schema)
            with found.update_schema() as update:
                for name in missing:
                    update.add_column(name, grown.find_field(name).field_type)

    def _create(self, table: Place, schema: pa.Schema) -> None:
        if isinstance(table, Path):
            table_format.refuse_other(table, "iceberg")
        name = self._identifier(table)
        opened = self._opened(table)
        try:
            if not opened.namespace_exists(name[:-1]):
                opened.create_namespace(name[:-1])
        except NamespaceAlreadyExistsError:
            pass  # another job has just made it
        fields = columns.to_iceberg(schema)
        opened.create_table(
            name,
            fields,
            location=file_io.location_of(table),
            partition_spec=columns.partitions(fields),
            properties={**PROPERTIES, TableProperties.DEFAULT_NAME_MAPPING: fields.name_mapping.model_dump_json()},
        )

    def _open(self, table: Place) -> Table | None:
        with self._explained(table):
            try:
                found = self._opened(table).load_table(self._identifier(table))
            except NoSuchTableError:
                self._kept.tables.pop(table, None)
                return None
            if file_io.plain(found.location()) != file_io.plain(file_io.location_of(table)):
                raise errors.Stop(
                    errors.TABLE_UNFIT,
                    f"{table}: in the catalog {'.'.join(self._identifier(table))} lies at {found.location()}; give that"
                    " as table, or another namespace",
                )
            self._kept.tables[table] = found
            return found

    def _required(self, table: Place) -> Table:
        found = self._open(table)
        if found is None:
            raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
        return found

    def _opened(self, table: Place) -> Opened:
        storage = table.storage if isinstance(table, StorePath) else FROM_ENVIRONMENT
        found = self._kept.catalogs.get(storage)
        if found is None:
            found = self._kept.catalogs[storage] = catalogs.connect(self._required_catalog(), storage)
        return found

    def _identifier(self, table: Place) -> tuple[str, ...]:
        return catalog_names.identifier(self._required_catalog(), table)

    def _required_catalog(self) -> Catalog:
        if self._catalog is None:
            raise errors.Stop(errors.BAD_OPTION, '[catalog] uri: required with table_format = "iceberg"')
        return self._catalog

    @contextmanager
    def _explained(self, table: Place) -> Iterator[None]:
        """What catalog and store answer is said in a sentence of ours; after an error both are opened anew."""
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError):
            self._forget(table)
            raise
        except catalogs.FAILURES as error:
            self._forget(table)
            raise catalogs.explain(self._required_catalog(), error) from error
        except (errors.Stop, errors.Wait):
            self._forget(table)
            raise

    @contextmanager
    def _committing(self, table: Place) -> Iterator[None]:
        try:
            yield
        except CommitFailedException as error:
            raise Collided(f"{table}: another writer committed at the same moment ({error})") from error
        except (*catalogs.FAILURES, errors.Wait) as error:
            explained = catalogs.explain(self._required_catalog(), error)
            self._forget(table)
            if isinstance(explained, errors.Stop):
                raise explained from error
            raise Collided(f"{table}: the catalog's answer is missing ({explained})", unanswered=explained) from error
        finally:
            self._kept.tables.pop(table, None)

    def _forget(self, table: Place) -> None:
        self._kept.tables.pop(table, None)
        while self._kept.catalogs:
            self._kept.catalogs.popitem()[1].close()

    def _by_rows(self, table: Place, found: Table) -> Offsets:
        return table_format.reached_by_rows(self._dataset(table, found)) if listing.manifests(found) else Offsets()

    def _dataset(self, table: Place, found: Table) -> ds.Dataset:
        schema = columns.to_arrow(found.schema())
        parts = listing.parts(found)
        if not parts:
            return ds.dataset(schema.empty_table())
        if listing.has_deletes(found):
            # Another engine has marked rows as deleted; the library knows how to leave them out.
            return ds.dataset(found.scan().to_arrow().cast(schema))
        return _files_dataset(table, schema, parts)


@lru_cache(maxsize=16)
def of(catalog: Catalog | None) -> IcebergFormat:
    """One for each catalog and process."""
    return IcebergFormat(catalog)


def _files_dataset(table: Place, schema: pa.Schema, parts: Sequence[Part]) -> ds.Dataset:
    parquet = ds.ParquetFileFormat()
    below = _file_system(table)
    fragments = [
        parquet.make_fragment(file_io.relative(table, part.location), below, partition_expression=_known(part))
        for part in parts
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, below)


def _file_system(table: Place) -> fs.FileSystem:
    if isinstance(table, Path):
        return fs.SubTreeFileSystem(str(table), fs.LocalFileSystem())
    return store_filesystem.below(table)


def _known(part: Part) -> pc.Expression:
    """What all rows of a file have in common; readers pass over files by it."""
    found = pc.field("_topic") == part.topic
    if part.date is not None:
        found = found & (pc.field("_date") == pa.scalar(part.date))
    if part.highest_id:
        found = found & (pc.field("_id") <= part.highest_id)
    return found


def _account(
    version: NewVersion, before: NewestCommit | None, decided: Append
) -> tuple[dict[str, str], dict[str, str]]:
    """What goes into the summary, and into the table's properties."""
    if decided.info is None:
        return {}, {}
    brief: CommitInfo = msgspec.structs.replace(decided.info, reached=Offsets())
    # Of the transactions, the commit sequence is in the account itself.
    batches = {} if decided.info.batch < 0 else {decided.info.application: decided.info.batch}
    newest = newest_commit.following(
        before, snapshot=version.id, number=version.number, info=decided.info, batches=batches
    )
    return {METADATA_KEY: msgspec.json.encode(brief.to_dict()).decode()}, {newest_commit.PROPERTY: newest.encode()}


def _newest(table: Table) -> tuple[NewestCommit | None, Line]:
    found = newest_commit.parse(table.properties)
    if found is None:
        return None, Line.CURRENT
    line = found.line(
        Snapshot(each.snapshot_id, each.parent_snapshot_id, each.sequence_number or 0) for each in _line(table)
    )
    return found, line


def _line(table: Table) -> Iterator[TableVersion]:
    """The current version and those it was made from, newest first, as far as the table remembers them."""
    each = table.current_snapshot()
    while each is not None:
        yield each
        each = None if each.parent_snapshot_id is None else table.snapshot_by_id(each.parent_snapshot_id)


def _number(table: Table) -> int:
    head = table.current_snapshot()
    return 0 if head is None else head.sequence_number or 0
