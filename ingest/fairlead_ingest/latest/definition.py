"""The definition of a latest table: its key, order and columns, and which rows delete a key; also as settings.

By default, the newest row is the one that messaging stored last, by message id: ids increase regardless of clocks,
across restarts of devices and the service, and across a recreated topic. ``order_by`` puts columns first. In it,
``enqueued_at``, which comes from the device's clock, counts as the time of publishing if it is later than that;
otherwise a clock that is years ahead would keep a row for years.
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
"""Columns that are always kept."""
ARRIVAL: Final = ("_id", "_topic", "_ingested_at", "_batch")
"""The order of arrival. More than the id, because a row that was deleted and filled in again may exist twice."""
DELETED: Final = "_deleted"
BUCKET: Final = "_bucket"
OWN: Final = (DELETED, BUCKET)
PROPERTY: Final = "properties."
"""Prefix in ``delete_when`` for a property of the message instead of a column."""

Value = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestDefinition:
    """See the module. Empty ``columns`` means all; ``delete_when`` has the values of a column that delete a key."""

    key: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    delete_when: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Identifies the definition; if it changes, the table is rebuilt."""
        said = [list(self.key), list(self.order_by), sorted(self.columns), sorted(self.delete_when.items())]
        return f"{zlib.crc32(json.dumps(said).encode()):08x}"

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that order rows, the most significant first, without repetition."""
        return tuple(dict.fromkeys((*self.order_by, *ARRIVAL)))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns needed to decide whether a row is the newest of its key, and whether it deletes."""
        deleting = ("properties" if name.startswith(PROPERTY) else name for name in self.delete_when)
        capped = ("_published_at",) if "enqueued_at" in self.order_by else ()
        return tuple(dict.fromkeys((*self.key, *self.order, *capped, *deleting)))

    def kept(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the latest table for rows with this schema."""
        always = {*self.key, *self.order_by, *LINEAGE}
        chosen = [each for each in rows if not self.columns or each.name in self.columns or each.name in always]
        return pa.schema([*chosen, pa.field(DELETED, pa.bool_()), pa.field(BUCKET, pa.int32())])

    def check(self, rows: pa.Schema) -> None:
        """Raise ``Stop`` if a latest table cannot be made of rows with these columns."""
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
                raise _unfit(f"the rows already have a column {name!r}, which the latest table needs")
        missing = [name for name in LINEAGE if name not in rows.names]
        if missing:
            raise _unfit(f"the rows lack {', '.join(missing)}: this table was not written by a Fairlead job")


def _problem(setting: str, kind: pa.DataType) -> str:
    """Why a column of this type cannot be used; empty if it can."""
    if setting == "columns":
        return ""
    if pa.types.is_nested(kind):
        return "use a column with single values"
    if setting == "key" and pa.types.is_floating(kind):
        return "equal measurements may differ in floating point; use a text, a whole number or a decimal"
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
            raise ValueError(f"{name} is reserved for the latest table")
    if len(set(names)) != len(names):
        raise ValueError("a name is repeated")
    return names


def _deleting(conditions: dict[str, list[str | int | bool]]) -> dict[str, list[str | int | bool]]:
    _columns(list(conditions))
    for name, values in conditions.items():
        if not values or len({type(value) for value in values}) > 1:
            raise ValueError(f"{name}: must be a list of values of one type")
    return conditions


Columns = Annotated[list[str], Field(max_length=COLUMNS_MAX), AfterValidator(_columns)]
Deleting = Annotated[dict[str, list[str | int | bool]], AfterValidator(_deleting)]


class LatestSettings(Model):
    """A second table with the newest row of each key."""

    key: Columns = Field(default=[])
    """Columns whose values form the key, for example `["node"]`: `<table>_latest` contains the newest row of each key
    ([how](../howto/latest-per-device.md)). If not set, there is no latest table."""
    order_by: Columns = Field(default=[])
    """Columns that decide which row is newer: the first that differs. If none differs, or without this key, the order
    in which messaging stored the messages. `enqueued_at` is capped at `_published_at`."""
    columns: Columns = Field(default=[])
    """Columns to keep in addition to `key`, `order_by` and lineage. If not set, all."""
    delete_when: Deleting = Field(default={})
    """Columns (or `properties.NAME`), each with the values that delete the key: the row stays, with `_deleted` true."""
    seconds: Annotated[float, Field(ge=0, le=SECONDS_MAX)] = SECONDS_DEFAULT
    """Minimum time between two refreshes; 0: after each commit. Refreshing takes at most a fifth of the time."""
    keep_hours: Annotated[int, Field(ge=1)] = KEEP_HOURS_DEFAULT
    """How long older files are kept for readers that have already started; then the job deletes them."""

    @property
    def definition(self) -> LatestDefinition | None:
        """The definition, None if there is no latest table."""
        if not self.key:
            return None
        return LatestDefinition(
            key=tuple(self.key),
            order_by=tuple(self.order_by),
            columns=tuple(self.columns),
            delete_when={name: tuple(values) for name, values in self.delete_when.items()},
        )


def wrong(where: str, latest: LatestSettings, table_format: str) -> Iterator[Mistake]:
    """The mistakes in the settings of a pipeline with this table format."""
    if not latest.key:
        if latest.model_fields_set - {"key"}:
            yield Mistake(mistakes.join(where, "key"), "required with the other keys of this table; name a column")
        return
    if table_format != "delta":
        yield Mistake(where, f'needs the log of a Delta table, not {table_format}; use table_format = "delta"')
