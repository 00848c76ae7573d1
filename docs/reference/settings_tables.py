"""Writes the tables of settings in the reference pages, from the programs' own settings.

    .venv/bin/python docs/reference/settings_tables.py      # after a change of settings; a test fails while it is due

A key's meaning is the text below it in its model; type, limits and default are the model's own. So a page cannot say
something else than the program does.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.model import MODELS
from fairlead_wire.validation.reader import STRUCTS

REFERENCE = Path(__file__).resolve().parent
PAGES: Mapping[str, Any] = {
    "hub": HubSettings,
    "edge": EdgeSettings,
    "messaging": MessagingSettings,
    "ingest": IngestSettings,
}
BEGIN = "<!-- settings: made by settings_tables.py from the program's settings -->\n"
END = "<!-- settings: end -->\n"
REQUIRED = "required"
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def table(model: Any) -> str:
    """All keys of a program, those of its tables after its own."""
    lines = ["| key | default | may be | meaning |", "| --- | --- | --- | --- |"]
    lines += (f"| {' | '.join(cells)} |" for cells in rows(model))
    return "\n".join(lines) + "\n"


def rows(model: Any, place: str = "", table: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Key, default, what it may be, meaning; those of ``table`` have ``place`` in front of their keys."""
    reader = STRUCTS if STRUCTS.is_model(model) else MODELS
    defaults, texts = _defaults(model), _texts(model)
    below: list[tuple[str, str, Any]] = []
    for key, annotation, *_ in reader.fields(model):
        inner = [member for member, _ in mistakes.members(annotation)]
        several = [each for member in inner if get_origin(member) is list for each in get_args(member)]
        if tables := [each for each in inner if reader.is_model(each)]:
            below.append((f"[{table}{key}] ", f"{table}{key}.", tables[0]))
            continue
        if tables := [each for each in several if reader.is_model(each)]:
            below.append((f"[[{table}{key}]] ", f"{table}{key}.", tables[0]))
        yield f"`{place}{key}`", _default(key, defaults[key]), _may_be(annotation), texts[key]
    for where, name, inner_model in below:
        yield from rows(inner_model, where, name)


def page(name: str) -> str:
    """The whole page as it should be."""
    text = path(name).read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{name}: no place for the table"
    return f"{before}{BEGIN}{table(PAGES[name])}{END}{after}"


def path(name: str) -> Path:
    return REFERENCE / f"{name}.md"


def _may_be(annotation: Any) -> str:
    kinds = [each for each in mistakes.members(annotation) if each[0] is not type(None)]
    if len(kinds) == 1 and (choices := mistakes.allowed(kinds[0][0])) is not None:
        return ", ".join(f"`{each}`" for each in choices)
    return mistakes.expected(annotation).removeprefix("a ")


def _default(key: str, value: Any) -> str:
    if value is REQUIRED:
        return "required"
    if value is None or value == "" or value == {} or value == []:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and "bytes" in key:
        for unit, name in UNITS:
            if value % unit == 0 and value:
                return f"{value // unit} {name}"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`" if isinstance(value, str) else str(value)


def _defaults(model: Any) -> dict[str, Any]:
    if STRUCTS.is_model(model):
        return {each.encode_name: _struct_default(each) for each in msgspec.structs.fields(model)}
    return {
        each.alias or name: REQUIRED if each.is_required() else each.default
        for name, each in model.model_fields.items()
    }


def _struct_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.required:
        return REQUIRED
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _texts(model: Any) -> dict[str, str]:
    """The text below each key, of the model itself or of one it is made from."""
    own = dict(
        zip(getattr(model, "__struct_fields__", ()), getattr(model, "__struct_encode_fields__", ()), strict=True)
    )
    own |= {name: each.alias or name for name, each in getattr(model, "model_fields", {}).items()}
    found: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        if ancestor.__module__.startswith("fairlead_"):
            found |= _texts_of(ancestor)
    return {key: found.get(name, "") for name, key in own.items()}


@cache
def _texts_of(model: type) -> dict[str, str]:
    module = ast.parse(inspect.getsource(sys.modules[model.__module__]))
    [found] = [each for each in module.body if isinstance(each, ast.ClassDef) and each.name == model.__name__]
    texts = {}
    for statement, following in zip(found.body, found.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            texts[statement.target.id] = " ".join(str(following.value.value).replace("``", "`").split())
    return texts


def main() -> None:
    for name in PAGES:
        path(name).write_text(page(name))


if __name__ == "__main__":
    main()
