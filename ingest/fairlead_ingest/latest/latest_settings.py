"""The table ``[latest]`` of a job's settings, and what it says as a ``LatestDefinition``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from fairlead_ingest.latest.definition import OWN, LatestDefinition
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model

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
    """Columns whose values together are a key, `["node"]` say: `<table>_latest` holds the newest row of each
    ([how](../howto/latest-per-device.md)). Absent: there is none."""
    order_by: Columns = Field(default=[])
    """Columns that say which row is newer, the first that differs counts; then, and without them, the order in which
    messaging stored the messages. `enqueued_at` counts as `_published_at` where it is later than that."""
    columns: Columns = Field(default=[])
    """Columns it keeps, beside those of `key`, `order_by` and lineage; absent: all."""
    delete_when: Deleting = Field(default={})
    """Columns (or `properties.NAME`), each with the values that delete the key: its row stays, with `_deleted` true."""
    seconds: Annotated[float, Field(ge=0, le=SECONDS_MAX)] = SECONDS_DEFAULT
    """At most so often it is brought up to the rows; 0: after each commit. Work takes a fifth of the time at most."""
    keep_hours: Annotated[int, Field(ge=1)] = KEEP_HOURS_DEFAULT
    """So long its older files stay, for readers that have begun; the job deletes them."""

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
