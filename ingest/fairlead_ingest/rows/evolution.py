"""Fields of bodies that no column takes yet, under the contract's mode ``evolve``.

    tasks    look at the bodies they write: which fields have no column, and what is in them
    driver   adds the columns, then has the batch tried again: the query starts again and reads the fields into them

A column's type follows from the first batch that has the field: numbers are ``double`` (a sensor that says 20 today
says 20.5 tomorrow), true and false ``boolean``, all else ``string``, objects and arrays as their JSON text. Only fields
at the top, with a name that a column may have; the rest stays in the body, as everything does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa

# A producer that numbers its fields must not make a table that no reader can open.
COLUMNS_MAX = 1_000
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
TYPES: Mapping[str, pa.DataType] = {"double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_TYPE_OF_FIRST_BYTE = {
    **dict.fromkeys(b"-0123456789", "double"), **dict.fromkeys(b"tf", "boolean"), **dict.fromkeys(b'"{[', "string"),
}  # fmt: skip

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def unknown(bodies: Iterable[str | None], known: Iterable[str]) -> dict[str, str]:
    """Field to type for what is in the objects among ``bodies`` and not in ``known``; a null says nothing of a type."""
    columns = {name.lower() for name in known}
    found: dict[str, str] = {}
    for body in bodies:
        if body is None or not body.startswith("{"):
            continue
        try:
            fields = _decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue  # a transform's own text, say; the row keeps it as it is
        for name, value in fields.items():
            if name in columns or name.lower() in columns:
                continue
            data_type = _TYPE_OF_FIRST_BYTE.get(memoryview(value)[0])
            if data_type is not None and NAME.fullmatch(name):
                _note(found, name, data_type)
    return found


def merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What several tasks found, in order of name."""
    found: dict[str, str] = {}
    for part in parts:
        for name, data_type in part.items():
            _note(found, name, data_type)
    return dict(sorted(found.items()))


def columns(found: Mapping[str, str], held: Iterable[str]) -> pa.Schema:
    """The columns to add for ``found`` beside ``held``: none twice, whatever the case of its letters, none too many."""
    there = {name.lower() for name in held}
    room = COLUMNS_MAX - len(there)
    added: list[pa.Field] = []
    for name, data_type in found.items():
        if name.lower() not in there and len(added) < room:
            there.add(name.lower())
            added.append(pa.field(name, TYPES[data_type]))
    return pa.schema(added)


def _note(found: dict[str, str], name: str, data_type: str) -> None:
    if len(found) < COLUMNS_MAX or name in found:
        found[name] = data_type if found.get(name, data_type) == data_type else "string"
