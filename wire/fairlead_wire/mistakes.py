"""Everything that is wrong with a document, at once: each mistake with the key it is at, and the nearest right one.

A decoder stops at its first refusal, which is right for programs and wrong for people: five mistakes in a file are five
restarts.  ``find`` walks the data beside the model only after the decoder has refused, so it costs nothing when all is
well.

    data ─find(data, model)→ (Mistake("link.nodes_max", "Expected `int`, is 'many'"), …)

A model's ``__post_init__`` names the key itself (``"table: required"``), several of them a line each.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union

import msgspec
from msgspec import inspect

SHOWN_CHARS_MAX: Final = 80
DEPTH_MAX: Final = 50
MISTAKES_MAX: Final = 100
"""More than anybody reads; the rest is found when these are mended."""

_AT = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)
_KEY = re.compile(r"[a-z_][a-z0-9_.\[\]]*", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/\s@]{1,1024}@")
_LEAVES_ALONE = (inspect.LiteralType, inspect.EnumType, inspect.BoolType)
"""What other keys' checks depend on is never replaced by its default: the answer would be about another document."""


class Mistake(msgspec.Struct, frozen=True):
    """``key`` as one writes it (``store.max_bytes``, ``topics[2]``), empty for the whole; ``reason`` for people."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}" if self.key else self.reason


def find(data: Any, model: type[msgspec.Struct]) -> tuple[Mistake, ...]:
    """All mistakes, in the order of the model's keys; empty when ``data`` can be read.  Never raises for bad data."""
    described = inspect.type_info(model)
    found = list(_walk(data, described, "", _spelled(described), 0))
    return tuple(found[:MISTAKES_MAX])


def explain(text: str) -> tuple[str, str]:
    """(key, reason) out of a decoder's own message."""
    found = _AT.match(text)
    assert found is not None
    path = (found["path"] or "").strip(".")
    reason = found["reason"]
    if unknown := _UNKNOWN.match(reason):
        return _join(path, unknown["field"]), "unknown key"
    if missing := _MISSING.match(reason):
        return _join(path, missing["field"]), "required, but not set"
    head, colon, tail = reason.partition(": ")
    # A model's own __post_init__ names the key itself: "http_listen: must be a loopback address".
    if colon and _KEY.fullmatch(head):
        return _join(path, head), tail
    return path, reason


def nearest(word: str, words: Iterator[str] | list[str]) -> str | None:
    """The one that was probably meant, if any comes near."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.7)
    return found[0] if found else None


def shown(value: Any) -> str:
    """A value as an error quotes it: short, and without the password an address may carry."""
    text = _USERINFO.sub("[secret]@", repr(value))
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def _walk(data: Any, described: inspect.Type, key: str, spelled: dict[str, str], depth: int) -> Iterator[Mistake]:
    described = _bare(described)
    if depth > DEPTH_MAX:
        yield Mistake(key, "nested too deeply")
        return
    member = _member(data, described)
    match member:
        case inspect.StructType() if isinstance(data, dict):
            yield from _struct(data, member, key, spelled, depth)
        case inspect.ListType() if isinstance(data, list):
            for index, each in enumerate(data):
                yield from _walk(each, member.item_type, f"{key}[{index}]", {}, depth + 1)
        case inspect.DictType() if isinstance(data, dict):
            for name, each in data.items():
                yield from _walk(each, member.value_type, _join(key, str(name)), {}, depth + 1)
        case _:
            yield from _value(data, described, member, key)


def _struct(
    data: dict[str, Any], model: inspect.StructType, key: str, spelled: dict[str, str], depth: int
) -> Iterator[Mistake]:
    names = [field.encode_name for field in model.fields]
    rest, judged = dict(data), True
    for field in model.fields:
        name = field.encode_name
        if name not in data:
            if field.required:
                judged = False
                yield Mistake(_join(key, name), "required, but not set")
            continue
        found = list(_walk(data[name], field.type, _join(key, name), {}, depth + 1))
        yield from found
        if found:
            # Without what is optional and bad the model can still judge the rest.
            del rest[name]
            judged = judged and not field.required and not isinstance(_bare(field.type), _LEAVES_ALONE)
    for name in data:
        if name not in names and model.forbid_unknown_fields:
            del rest[name]
            meant = nearest(str(name), [each for each in names if each not in data])
            meant = _join(key, meant) if meant else spelled.get(str(name))
            yield Mistake(_join(key, str(name)), "unknown key" + (f"; did you mean {meant}?" if meant else ""))
    if judged:
        yield from _whole(rest, model, key)


def _whole(data: dict[str, Any], model: inspect.StructType, key: str) -> Iterator[Mistake]:
    """What the model itself says about fields that are good each for itself.

    It stops at its first reason; so that the next one is found too, the key it names is taken as if it were not given.
    """
    defaults = {field.encode_name: field for field in model.fields}
    told: set[str] = set()
    while True:
        try:
            msgspec.convert(data, model.cls, strict=True)
            return
        except (msgspec.ValidationError, ValueError) as error:
            head, _, _ = str(error).partition(" - at `$")
            reasons = [explain(line) for line in head.split("\n")]
        fresh = [(name, reason) for name, reason in reasons if name not in told or not name]
        for name, reason in fresh:
            yield Mistake(_join(key, name), reason)
        told.update(name for name, _ in fresh)
        replaced = [_replace(data, defaults.get(name)) for name, _ in fresh]
        if not any(replaced):
            return


def _replace(data: dict[str, Any], field: inspect.Field | None) -> bool:
    """Take the key as if it had not been given, or, where that is what is wrong, as if it had been; False: neither."""
    if field is None or isinstance(_bare(field.type), _LEAVES_ALONE):
        return False
    if field.encode_name in data and not field.required:
        del data[field.encode_name]
        return True
    if field.default is None and _text_of(field.type) == "":
        data[field.encode_name] = "."
        return True
    return False


def _text_of(described: inspect.Type) -> str | None:
    """ "" when a text may stand there."""
    described = _bare(described)
    members = described.types if isinstance(described, inspect.UnionType) else (described,)
    return "" if any(isinstance(_bare(each), inspect.StrType) for each in members) else None


def _value(data: Any, described: inspect.Type, member: inspect.Type, key: str) -> Iterator[Mistake]:
    if isinstance(member, inspect.LiteralType):
        if data not in member.values or isinstance(data, bool):
            allowed = ", ".join(str(each) for each in member.values)
            meant = nearest(str(data), [str(each) for each in member.values])
            yield Mistake(key, f"one of {allowed}, is {shown(data)}" + (f"; did you mean {meant}?" if meant else ""))
        return
    reason = _refused(data, described)
    if reason is not None:
        yield Mistake(key, f"{reason}, is {shown(data)}")


def _refused(data: Any, described: inspect.Type) -> str | None:
    """Why the decoder would not take this value alone; None when it would."""
    try:
        msgspec.convert(data, _annotation(described), strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        return explain(str(error))[1].partition(", got ")[0]
    return None


def _bare(described: inspect.Type) -> inspect.Type:
    while isinstance(described, inspect.Metadata):
        described = described.type
    return described


def _member(data: Any, described: inspect.Type) -> inspect.Type:
    """Of a union the only member of the value's shape, else the union itself."""
    if not isinstance(described, inspect.UnionType):
        return described
    members = [_bare(each) for each in described.types]
    shapes: tuple[type, ...] = ()
    if isinstance(data, dict):
        shapes = (inspect.StructType, inspect.DictType)
    elif isinstance(data, list):
        shapes = (inspect.ListType,)
    elif isinstance(data, str):
        shapes = (inspect.LiteralType,) if not any(isinstance(each, inspect.StrType) for each in members) else ()
    fitting = [each for each in members if isinstance(each, shapes)]
    return fitting[0] if len(fitting) == 1 else described


def _annotation(described: inspect.Type) -> Any:
    """The type msgspec would be given for this description; limits included."""
    match described:
        case inspect.Metadata(type=inner):
            return _annotation(inner)
        case inspect.UnionType(types=types):
            return _either([_annotation(each) for each in types])
        case inspect.IntType() | inspect.FloatType():
            kind = int if isinstance(described, inspect.IntType) else float
            return _limited(kind, described, ("gt", "ge", "lt", "le", "multiple_of"))
        case inspect.StrType():
            return _limited(str, described, ("min_length", "max_length", "pattern"))
        case inspect.StructType(cls=cls) | inspect.EnumType(cls=cls):
            return cls
        case inspect.LiteralType(values=values):
            return Literal[values]
        case inspect.ListType(item_type=item):
            return _limited(list[_annotation(item)], described, ("min_length", "max_length"))  # type: ignore[misc]
        case inspect.DictType(key_type=name, value_type=item):
            return _limited(dict[_annotation(name), _annotation(item)], described, ("min_length", "max_length"))  # type: ignore[misc]
        case inspect.BoolType():
            return bool
        case inspect.NoneType():
            return None
    return Any


def _limited(kind: Any, described: Any, limits: tuple[str, ...]) -> Any:
    given = {limit: getattr(described, limit) for limit in limits if getattr(described, limit) is not None}
    return Annotated[kind, msgspec.Meta(**given)] if given else kind


def _either(kinds: list[Any]) -> Any:
    return Union[tuple(kinds)]  # noqa: UP007 - of as many as there are


def _spelled(described: inspect.Type) -> dict[str, str]:
    """Names of keys in tables below → where they belong, for one that was written outside its table."""
    found: dict[str, str] = {}
    if isinstance(described, inspect.StructType):
        for field in described.fields:
            below = _bare(field.type)
            if isinstance(below, inspect.StructType):
                for inner in below.fields:
                    found.setdefault(inner.encode_name, f"{field.encode_name}.{inner.encode_name}")
    return found


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
