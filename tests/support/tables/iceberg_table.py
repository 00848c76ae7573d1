"""An Iceberg table in a folder, with a catalog in SQLite, and commits as the sink makes them."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.iceberg import catalogs
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import AlreadyIn, Append, Collided
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT, Place

SCHEMA = pa.schema(
    [("_id", pa.string()), ("node", pa.string()), ("_published_at", TIMESTAMP), ("_topic", pa.string()),
     ("_date", pa.date32())]
)  # fmt: skip
NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
TOPIC = "a/t"
# Status, headers and body for a path; a service that answers so, as its address.
Answers = Callable[[str], tuple[int, dict[str, str], bytes]]
Serve = Callable[[Answers], str]


def commit_until_in(table: IcebergTable, batch: int, tries_max: int) -> int:
    """Commit as the sink does, which checks the table after every error; returns the number of attempts."""
    for tries in range(1, tries_max + 1):
        try:
            table.commit(batch, batch)
            return tries
        except (Collided, errors.Wait):
            continue
    raise AssertionError(f"batch {batch} did not go in")


def refused(catalog: Catalog) -> errors.Stop | errors.Wait:
    """The error with which this catalog cannot be opened."""
    with pytest.raises((errors.Stop, errors.Wait)) as error:
        catalogs.connect(catalog, FROM_ENVIRONMENT)
    assert isinstance(error.value, errors.Stop | errors.Wait)
    return error.value


class IcebergTable:
    """``number`` of a row is its id and the position after it."""

    def __init__(self, folder: Path, catalog: Catalog | None = None, place: Place | None = None) -> None:
        self.folder = folder
        self.catalog = catalog or Catalog(type="sql", uri=f"sqlite:///{folder}/catalog.db")
        self.format = IcebergFormat(self.catalog)
        self.place = place or folder / "rows"
        self.format.ensure(self.place, SCHEMA)

    def opened(self) -> Table:
        """The table as other programs open it: by name, without our code."""
        return SqlCatalog("fairlead", uri=self.catalog.uri).load_table((self.catalog.namespace, "rows"))

    def rewrite(self, key: str, value: object) -> None:
        """Change its metadata as any writer could, in all its versions if they have the key."""
        with sqlite3.connect(self.folder / "catalog.db") as asked:
            ((location,),) = asked.execute("select metadata_location from iceberg_tables")
            old = Path(location.removeprefix("file://"))
            held = json.loads(old.read_text())
            for each in held["snapshots"] if key in ("manifest-list", "summary") else [held]:
                each[key] = value
            new = old.with_name("00009-other.metadata.json")
            new.write_text(json.dumps(held))
            asked.execute("update iceberg_tables set metadata_location = ?", [f"file://{new}"])

    def written(self, *numbers: int, topic: str = TOPIC) -> list[WrittenFile]:
        writing = self.format.writing(self.place)
        rows = [
            {
                "_id": f"{number:04}",
                "node": f"n{number % 3}",
                "_published_at": NOW,
                "_topic": topic,
                "_date": NOW.date(),
            }
            for number in numbers
        ]
        writing.add(pa.Table.from_pylist(rows, schema=SCHEMA))
        return writing.close()

    def commit(self, batch: int, *numbers: int, application: str = "app") -> bool:
        """False if the table already has the batch."""
        decided = self.decided(batch, max(numbers), application)
        if isinstance(decided, AlreadyIn):
            return False
        self.format.append(self.place, self.written(*numbers), decided)
        return True

    def decided(self, batch: int, upto: int, application: str = "app") -> Append | AlreadyIn:
        state = self.format.state(self.place, application)
        held = state.reached.topics.get(TOPIC, TopicOffset.at(1, ""))
        place = TopicOffset(
            generation=1, position=f"{upto:04}", start_generation=1, start_position=held.position, rows=1
        )
        end = Offsets(service="s", topics={TOPIC: place})
        return commit.decide(state, application=application, batch=batch, end=end, counts=BatchCounts(rows=1))

    def numbers(self) -> list[int]:
        """The numbers of its rows."""
        found = tables.existing(self.format, self.place).to_table(columns=["_id"])["_id"].to_pylist()
        return sorted(int(each) for each in found)
