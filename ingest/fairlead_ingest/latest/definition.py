"""What a latest table is made of: its key, its order, its columns, and which rows delete a key; also as settings.

The newest row is the one messaging stored last, by message id: ids rise whatever clocks do, across restarts of devices
and of the service, and across a topic that was recreated. ``order_by`` puts columns before that. ``enqueued_at`` there
is the device's clock, and counts as the time of publishing where it is later: nothing is accepted at the edge after it
was published, and a clock that is years ahead would keep a row for years.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final

import pyarrow as pa
from pydantic import AfterValidator, Field

from fairlead_ingest import errors
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model

LINEAGE: Final = ("_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date")
"""Always kept; the order ends with these."""
ARRIVAL: Final = ("_id", "_topic", "_ingested_at", "_batch")
"""The order of arrival, to the last doubt: a message whose row was deleted and filled in again may be there twice."""
DELETED: Final = "_deleted"
BUCKET: Final = "_bucket"
OWN: Final = (DELETED, BUCKET)
PROPERTY: Final = "properties."
"""``delete_when`` takes a column, or this and the name of a message's property."""

Value = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestDefinition:
    """See the module. ``columns`` empty: all; ``delete_when``: a column and the values of it that delete."""

    key: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    delete_when: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Another definition is another table: it is built again."""
        said = [list(self.key), list(self.order_by), sorted(self.columns), sorted(self.delete_when.items())]
        return f"{zlib.crc32(json.dumps(said).encode()):08x}"

    @property
    def order(self) -> tuple[str, ...]:
        """From the first that counts to the last; no column twice."""
        return tuple(dict.fromkeys((*self.order_by, *ARRIVAL)))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """What has to be read of a row to know whether it is the newest of its key, and whether it deletes."""
        deleting = ("properties" if name.startswith(PROPERTY) else name for name in self.delete_when)
        capped = ("_published_at",) if "enqueued_at" in self.order_by else ()
        return tuple(dict.fromkeys((*self.key, *self.order, *capped, *deleting)))

    def kept(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the latest table, of those of the rows."""
        always = {*self.key, *self.order_by, *LINEAGE}
        chosen = [each for each in rows if not self.columns or each.name in self.columns or each.name in always]
        return pa.schema([*chosen, pa.field(DELETED, pa.bool_()), pa.field(BUCKET, pa.int32())])

    def check(self, rows: pa.Schema) -> None:
        """Raises ``Stop`` where rows of these columns cannot be kept so."""
        named = (("key", self.key), ("order_by", self.order_by), ("columns", self.columns))
        for setting, names in (*named, ("delete_when", tuple(self.delete_when))):
            for name in names:
                column = "properties" if setting == "delete_when" and name.startswith(PROPERTY) else name
                if rows.get_field_index(column) < 0:
                    known = ", ".join(each for each in rows.names if each not in OWN)
                    raise _unfit(f"{setting}: the rows have no column {name!r}; there are {known}")
                problem = _problem(setting, rows.field(column).type)
                if problem:
                    raise _unfit(f"{setting}: column {name!r} is {rows.field(column).type}; {problem}")
        for name, values in self.delete_when.items():
            if not name.startswith(PROPERTY):
                try:
                    pa.array(values, rows.field(name).type)
                except (pa.ArrowException, TypeError) as error:
                    raise _unfit(f"delete_when: {name!r} is {rows.field(name).type} in the rows: {error}") from None
        for name in OWN:
            if name in rows.names:
                raise _unfit(f"the rows have a column {name!r} of their own, which the latest table needs")
        missing = [name for name in LINEAGE if name not in rows.names]
        if missing:
            raise _unfit(f"the rows lack {', '.join(missing)}: this is no table of ours")


def _problem(setting: str, kind: pa.DataType) -> str:
    """Why a column of this type cannot be used so; empty where it can."""
    if setting == "columns":
        return ""
    if pa.types.is_nested(kind):
        return "name one that is a single value"
    if setting == "key" and pa.types.is_floating(kind):
        return "two equal readings of a fraction need not be equal; use a text, a whole number or a decimal"
    return ""


def _unfit(sentence: str) -> errors.Stop:
    return errors.Stop(errors.BAD_OPTION, f"[latest] {sentence}")


SECONDS_DEFAULT: Final = 10.0
SECONDS_MAX: Final = 86_400
KEEP_HOURS_DEFAULT: Final = 2
COLUMN_CHARS_MAX: Final = 255
COLUMNS_MAX: Final = 1000


def _columns(names: list[str]) -> list[str]:
    for name in names:
        if not name.strip() or len(name) > COLUMN_CHARS_MAX:
            raise ValueError(f"names have 1 to {COLUMN_CHARS_MAX} characters, is {mistakes.shown(name)}")
        if name in OWN:
            raise ValueError(f"{name} is the latest table's own")
    if len(set(names)) != len(names):
        raise ValueError("one is named twice")
    return names


def _deleting(conditions: dict[str, list[str | int | bool]]) -> dict[str, list[str | int | bool]]:
    _columns(list(conditions))
    for name, values in conditions.items():
        if not values or len({type(value) for value in values}) > 1:
            raise ValueError(f"{name}: must be a list of values of one kind")
    return conditions


Columns = Annotated[list[str], Field(max_length=COLUMNS_MAX), AfterValidator(_columns)]
Deleting = Annotated[dict[str, list[str | int | bool]], AfterValidator(_deleting)]


class LatestSettings(Model):
    """A table beside that holds the newest row of each key."""

    key: Columns = Field(default=[])
    """Columns whose values form the key, for example `["node"]`: `<table>_latest` contains the newest row of each key
    ([how](../howto/latest-per-device.md)). Absent: no latest table."""
    order_by: Columns = Field(default=[])
    """Columns that decide which row is newer: the first that differs. If none differs, or without this key, the order
    in which messaging stored the messages. `enqueued_at` is capped at `_published_at`."""
    columns: Columns = Field(default=[])
    """Columns to keep in addition to `key`, `order_by` and lineage; absent: all."""
    delete_when: Deleting = Field(default={})
    """Columns (or `properties.NAME`), each with the values that delete the key: the row stays, with `_deleted` true."""
    seconds: Annotated[float, Field(ge=0, le=SECONDS_MAX)] = SECONDS_DEFAULT
    """Minimum time between two refreshes; 0: after each commit. Refreshing takes at most a fifth of the time."""
    keep_hours: Annotated[int, Field(ge=1)] = KEEP_HOURS_DEFAULT
    """How long older files are kept for readers that have already started; then the job deletes them."""

    @property
    def definition(self) -> LatestDefinition | None:
        """None where there is no latest table."""
        if not self.key:
            return None
        return LatestDefinition(
            key=tuple(self.key),
            order_by=tuple(self.order_by),
            columns=tuple(self.columns),
            delete_when={name: tuple(values) for name, values in self.delete_when.items()},
        )


def wrong(where: str, latest: LatestSettings, table_format: str) -> Iterator[Mistake]:
    """What is wrong with it in a pipeline whose tables are of this format."""
    if not latest.key:
        if latest.model_fields_set - {"key"}:
            yield Mistake(mistakes.join(where, "key"), "required with the other keys of this table; name a column")
        return
    if table_format != "delta":
        yield Mistake(where, f'is kept from the log of a Delta table, not {table_format}; use table_format = "delta"')
