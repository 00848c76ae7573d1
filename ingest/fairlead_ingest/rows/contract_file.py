"""Parses a contract's file: JSON or TOML, or just a Spark schema.

    {"name": "telemetry", "version": 2, "mode": "freeze", "columns": {
        "temperature": {"type": "double", "required": true, "minimum": -60, "maximum": 150},
        "tags": "array<string>"},
     "routes": [{"name": "doors", "source": "/messages/modules/door/*", "columns": {"open": "boolean"}}]}

A column that is added to the file later is added to the table in any mode; columns are never removed, and a changed
type is refused. Spark's schema JSON (``{"type": "struct", …}``) and DDL (``temperature DOUBLE, tags ARRAY<STRING>``)
are accepted too.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import types

from fairlead_ingest import errors
from fairlead_ingest.rows import column_check, ddl
from fairlead_ingest.rows.contract import DECIMALS, EVOLVE, EXACT, FREEZE, MODES, OWN_COLUMNS, Contract, RowRoute
from fairlead_ingest.rows.rules import NO_RULE, ColumnRule, check_rule
from fairlead_wire.validation import mistakes

FILE_CHARS_MAX = 1024 * 1024
NAME_CHARS_MAX = 255
ROUTES_MAX = 100
VERSION_MAX = 2**31 - 1
LINE_CHARS_MAX = 1000
MISTAKES_MAX = 20
TOML_ENDING = ".toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class _Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    required: bool = False
    description: str = ""
    enum: tuple[str | int, ...] | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None


_Columns = dict[str, str | _Column]


class _Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    columns: _Columns = {}
    description: str = ""
    source: str = ""
    topic: str = ""
    properties: dict[str, str] = {}


class _ContractFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    columns: _Columns = {}
    mode: str = FREEZE
    decimals: str = EXACT
    name: str = ""
    version: int = 0
    description: str = ""
    routes: list[_Route] = []


def parse(text: str, source: str) -> Contract:
    """Parse the ``text`` of the file named ``source``. Raises ``Stop``."""
    try:
        if len(text) > FILE_CHARS_MAX:
            raise ValueError(f"longer than {FILE_CHARS_MAX} characters")
        contract = _parse(text.strip(), source)
        _check_names(contract)
        for each in contract.columns.fields:
            with_name(each.name, column_check.check_type, each.dataType)
    except (msgspec.MsgspecError, PySparkException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {_line(error)}") from None
    except RecursionError:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: nested too deep") from None
    return contract


def with_name(name: str, check: Any, *arguments: Any) -> Any:
    """Call ``check``, and put ``name`` before the text of a ``ValueError``."""
    try:
        return check(*arguments)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _parse(text: str, source: str) -> Contract:
    if source.endswith(TOML_ENDING):
        try:
            return _of_file(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            quotes = "; are quotes missing around a text?" if "Invalid value" in str(error) else ""
            raise ValueError(f"{error}{quotes}") from None
    if not text.startswith("{"):
        return Contract(columns=ddl.columns_of(text))
    plain = msgspec.json.decode(text)
    json.loads(text, object_pairs_hook=_named_once)
    if plain.get("type") == "struct":
        return Contract(columns=types.StructType.fromJson(plain))
    return _of_file(plain)


def _named_once(pairs: list[tuple[str, Any]]) -> None:
    # JSON readers silently drop the first of two equal keys, as after a bad merge.
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"{name[:40]}: repeated name")
        names.add(name)


def _of_file(plain: dict[str, Any]) -> Contract:
    if wrong := [*_mistakes(plain), *_top_mistakes(plain)][:MISTAKES_MAX]:
        raise ValueError("; ".join(wrong))
    file = msgspec.convert(plain, _ContractFile)
    columns, asked = _columns(file.columns)
    shared = set(columns)
    routes = []
    for each in _checked(file.routes):
        own, own_rules = with_name(f"route {each.name}", _columns, each.columns)
        for name, data_type in own.items():
            if columns.setdefault(name, data_type) != data_type:
                raise ValueError(
                    f"route {each.name}: {name}: {data_type.simpleString()} here and"
                    f" {columns[name].simpleString()} elsewhere; a column has one type in a table"
                )
        routes.append(
            RowRoute(
                name=each.name,
                source=each.source,
                topic=each.topic,
                properties=each.properties,
                columns=tuple(own),
                rules=own_rules,
                description=each.description,
            )
        )
    return Contract(
        columns=types.StructType([types.StructField(name, data_type) for name, data_type in columns.items()]),
        mode=file.mode,
        decimals=file.decimals,
        name=file.name,
        version=file.version,
        description=file.description,
        rules=asked,
        routes=tuple(routes),
        routed=tuple(name for name in columns if name not in shared),
    )


def _mistakes(plain: Any) -> list[str]:
    """The unknown keys and types in the whole file, each with its column and a suggestion."""
    found: list[str] = []

    def keys(of: Any, known: type[msgspec.Struct], where: str) -> None:
        for key in of if isinstance(of, dict) else ():
            if key not in known.__struct_fields__ and len(found) < MISTAKES_MAX:
                meant = mistakes.nearest(key[:40], known.__struct_fields__)
                found.append(f"{where}unknown key {key[:40]!r}" + (f", did you mean {meant}?" if meant else ""))

    def columns(of: Any, where: str) -> None:
        for name, column in of.items() if isinstance(of, dict) else ():
            keys(column, _Column, f"{where}{name}: ")
            text = column.get("type") if isinstance(column, dict) else column
            if isinstance(text, str) and len(found) < MISTAKES_MAX:
                try:
                    ddl.type_of(text)
                except ValueError as error:
                    found.append(f"{where}{name}: {error}")

    keys(plain, _ContractFile, "")
    columns(plain.get("columns"), "")
    routes = plain.get("routes")
    for number, each in enumerate(routes if isinstance(routes, list) else ()):
        if isinstance(each, dict):
            where = f"route {str(each.get('name', number))[:40]}: "
            keys(each, _Route, where)
            columns(each.get("columns"), where)
    return found


def _top_mistakes(plain: dict[str, Any]) -> list[str]:
    """What is wrong with mode, decimals, name and version; types are left to the decoder."""
    found = [
        f"{key}: must be one of {', '.join(allowed)}, not {plain[key][:40]!r}"
        for key, allowed in (("mode", MODES), ("decimals", DECIMALS))
        if isinstance(plain.get(key), str) and plain[key] not in allowed
    ]
    name, version = plain.get("name", ""), plain.get("version", 0)
    if not isinstance(name, str) or type(version) is not int:
        return found
    if version and not name:
        found.append("name: required together with version")
    elif name and not _NAME.fullmatch(name):
        found.append(f"name: must be up to 128 letters, digits, '.', '_' and '-', not {name[:40]!r}")
    if name and "version" not in plain:
        found.append("version: required together with name")
    elif name and not 1 <= version <= VERSION_MAX:
        found.append(f"version: must be a whole number, at least 1, not {version}")
    return found


def _checked(routes: list[_Route]) -> list[_Route]:
    if len(routes) > ROUTES_MAX:
        raise ValueError(f"routes: at most {ROUTES_MAX}")
    names = [each.name for each in routes]
    for each in routes:
        if not _NAME.fullmatch(each.name):
            given = f"{each.name[:40]!r}"
            raise ValueError(f"routes: name: must be up to 128 letters, digits, '.', '_' and '-', not {given}")
        if names.count(each.name) > 1:
            raise ValueError(f"route {each.name}: repeated name")
        if not (each.source or each.topic or each.properties):
            raise ValueError(f"route {each.name}: set source, topic or properties to say which messages it takes")
    return routes


def _columns(written: _Columns) -> tuple[dict[str, types.DataType], Mapping[str, ColumnRule]]:
    columns, asked = {}, {}
    for name, column in written.items():
        said = _Column(type=column) if isinstance(column, str) else column
        columns[name] = with_name(name, ddl.type_of, said.type)
        if said.enum == ():
            raise ValueError(f"{name}: enum: the list is empty, so no value would fit")
        rule = ColumnRule(required=said.required, allowed=said.enum or (), minimum=said.minimum, maximum=said.maximum)
        if rule != NO_RULE:
            with_name(name, check_rule, rule, columns[name])
            asked[name] = rule
    return columns, asked


def _check_names(contract: Contract) -> None:
    names: set[str] = set()
    for name in (each.name.lower() for each in contract.columns.fields):
        if not name.strip() or len(name) > NAME_CHARS_MAX:
            raise ValueError(f"{name[:40]!r}: a name must have 1 to {NAME_CHARS_MAX} characters")
        if name in OWN_COLUMNS or name.startswith("_"):
            raise ValueError(f"{name}: the row already has a column of this name")
        if name in names:
            raise ValueError(f"{name}: repeated name")
        names.add(name)
    if not names and contract.mode != EVOLVE:
        raise ValueError("no columns")


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:LINE_CHARS_MAX]
