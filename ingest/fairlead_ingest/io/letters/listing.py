"""Dead letters as people ask for them: counted by kind, or one after the other."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.dead_letters import UNKNOWN, LetterSelection
from fairlead_ingest.io.letters import letters as found_letters
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place

# More kinds than this are of no use to a reader; the rest is left out, the most frequent come first.
KINDS_MAX = 50
# So few at a time that the first lines come at once.
_ROWS, _BYTES = 1_000, 8 * 1024 * 1024

Progress = Callable[[int], None]


def _silent(_: int) -> None:
    """Said to no one."""


def index(
    table_format: TableFormat, table: Place, selection: LetterSelection, state: str, progress: Progress = _silent
) -> pa.Table:
    """Identities of the letters that are ``open``, ``repaired`` or ``all``. Raises ``Stop`` where there is no table."""
    tables.existing(table_format, table)
    if state != "repaired":
        found = found_letters.index(table_format, table, selection, with_repaired=state == "all", progress=progress)
        return found.letters
    whole = found_letters.index(table_format, table, selection, with_repaired=True, progress=progress).letters
    marks = found_letters.marked(table_format, table)
    return whole.filter(found_letters.among(whole, marks)).combine_chunks()


def letters(
    table_format: TableFormat,
    table: Place,
    selection: LetterSelection,
    state: str,
    limit: int | None = None,
    progress: Progress = _silent,
) -> Iterator[dict[str, Any]]:
    """Rows of the dead letters' table, topic by topic; the oldest ``limit`` of them.

    ``progress`` gets how many were looked at before the first comes.
    """
    wanted = index(table_format, table, selection, state, progress)
    if limit is not None:
        wanted = wanted.take(pc.sort_indices(wanted["_id"]).slice(0, limit)).combine_chunks()
    if not wanted.num_rows:
        return
    for chunk in found_letters.chunks(table_format, table, wanted, rows=_ROWS, size=_BYTES):
        yield from chunk.to_pylist()


def summary(
    table_format: TableFormat,
    table: Place,
    name: str,
    selection: LetterSelection,
    state: str,
    *,
    progress: Progress = _silent,
    expect: Progress = _silent,
) -> dict[str, Any]:
    """How many there are by topic, code and field; payloads are not read.

    ``expect`` gets how many are counted once that is known, ``progress`` how many were since the call before.
    """
    tables.existing(table_format, table)
    counts = found_letters.index(table_format, table, selection)
    wanted = counts.letters if state == "open" else index(table_format, table, selection, state)
    kinds: dict[tuple[str, str, str], dict[str, Any]] = {}
    expect(wanted.num_rows)
    for letter in _reasons(table_format, table, wanted, progress):
        code = letter["code"] or UNKNOWN
        for field in letter["fields"] or [""]:
            kind = kinds.setdefault(
                (letter["_topic"], code, field),
                {
                    "topic": letter["_topic"], "code": code, "field": field, "letters": 0,
                    "first": letter["_published_at"], "last": letter["_published_at"],
                    "example": letter["error"] or "",
                },
            )  # fmt: skip
            kind["letters"] += 1
            kind["first"] = min(kind["first"], letter["_published_at"])
            kind["last"] = max(kind["last"], letter["_published_at"])
    most = sorted(kinds.values(), key=lambda kind: (-kind["letters"], kind["topic"], kind["code"], kind["field"]))
    for kind in most:
        kind["first"], kind["last"] = _text(kind["first"]), _text(kind["last"])
    return {
        "name": name,
        "table": str(table),
        "open": counts.letters.num_rows,
        "repaired": counts.repaired,
        "kinds": most[:KINDS_MAX],
        "kinds_left_out": max(0, len(most) - KINDS_MAX),
    }


def _reasons(table_format: TableFormat, table: Place, wanted: pa.Table, progress: Progress) -> Iterator[dict[str, Any]]:
    if not wanted.num_rows:
        return
    names = ["_topic", "_id", "_published_at", "error", "code", "fields"]
    for chunk in found_letters.chunks(table_format, table, wanted, columns=names):
        yield from chunk.select([name for name in names if name in chunk.column_names]).to_pylist()
        progress(chunk.num_rows)


def _text(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
