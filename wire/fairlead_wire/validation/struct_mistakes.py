"""Every mistake in a document that a msgspec struct should have: what the agent and the wire read.

A decoder stops at its first refusal, which is right for programs and wrong for people: five mistakes in a file are five
restarts.  ``find`` walks the data beside the struct only after the decoder has refused, so it costs nothing when all is
well.  Nothing is read out of the decoder's own text: it says yes or no to each value, the words come from the type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake, join

DEPTH_MAX: Final = 50

Document = TypeVar("Document")


def is_model(candidate: Any) -> bool:
    """A struct, which is a table of a file."""
    return isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)


def fields(model: Any) -> list[tuple[str, Any]]:
    """The keys of a struct as one writes them, each with its type and limits."""
    return [(field.encode_name, field.type) for field in msgspec.structs.fields(model)]


def read(data: Any, model: type[Document]) -> Document:
    """Raises ``ValueError`` at the first mistake."""
    return msgspec.convert(data, model, strict=True)


def find(data: Any, model: Any) -> tuple[Mistake, ...]:
    """All mistakes, in the order of the model's keys; empty when ``data`` can be read.  Never raises for bad data."""
    return tuple(_walk(data, model, "", _spelled(model), 0))[: mistakes.MISTAKES_MAX]


def find_value(value: Any, annotation: Any) -> tuple[Mistake, ...]:
    """The same for one value."""
    return tuple(_walk(value, annotation, "", {}, 0))[: mistakes.MISTAKES_MAX]


def _walk(data: Any, annotation: Any, key: str, spelled: dict[str, str], depth: int) -> Iterator[Mistake]:
    if depth > DEPTH_MAX:
        yield Mistake(key, "nested too deeply")
        return
    member = _member(data, annotation)
    inner = get_args(member)
    if is_model(member) and isinstance(data, dict):
        yield from _struct(data, member, key, spelled, depth)
        return
    found: list[Mistake] = []
    if get_origin(member) is list and isinstance(data, list):
        for index, each in enumerate(data):
            found += _walk(each, inner[0], f"{key}[{index}]", {}, depth + 1)
    elif get_origin(member) is dict and isinstance(data, dict):
        for name, each in data.items():
            found += _walk(each, inner[1], join(key, str(name)), {}, depth + 1)
    yield from found
    if not found and not _fits(data, annotation):
        choices = mistakes.allowed(member)
        reason = mistakes.not_one_of(choices, data) if choices is not None else mistakes.misfit(annotation, data)
        yield Mistake(key, reason)


def _struct(data: dict[str, Any], model: Any, key: str, spelled: dict[str, str], depth: int) -> Iterator[Mistake]:
    known = msgspec.structs.fields(model)
    names = [field.encode_name for field in known]
    rest, judged, bad = dict(data), True, set[str]()
    switches: dict[str, tuple[Any, ...]] = {}
    for field in known:
        name = field.encode_name
        if name not in data:
            if field.required:
                judged = False
                yield Mistake(join(key, name), mistakes.REQUIRED)
            continue
        found = list(_walk(data[name], field.type, join(key, name), {}, depth + 1))
        yield from found
        if found:
            # Without what is optional and bad the model can still judge the rest.
            del rest[name]
            bad.add(name)
            judged = judged and not field.required
            if choices := mistakes.choices(field.type):
                switches[name] = choices
    for name in data:
        if name not in names and model.__struct_config__.forbid_unknown_fields:
            del rest[name]
            meant = mistakes.nearest(str(name), [each for each in names if each not in data])
            yield Mistake(join(key, str(name)), mistakes.unknown(join(key, meant) if meant else spelled.get(str(name))))
    if judged:
        reported = [list(_whole({**rest, **chosen}, model, bad)) for chosen in mistakes.combinations(switches)]
        yield from (each.below(key) for each in mistakes.in_all(reported))


def _whole(data: dict[str, Any], model: Any, bad: set[str]) -> Iterator[Mistake]:
    """What the model itself says about fields that are good each for itself.

    It may stop at its first reason; so that the next one is found too, the key it names is taken as if it were not
    given.
    """
    known = {field.encode_name: field for field in msgspec.structs.fields(model)}
    data, reported = dict(data), set(bad)
    while True:
        try:
            msgspec.convert(data, model, strict=True)
            return
        except (msgspec.ValidationError, ValueError) as error:
            # msgspec names the check's own error as the cause of its refusal.
            found = mistakes.of(error.__cause__ or error)
        fresh = [each for each in found if each.key not in reported or not each.key]
        yield from fresh
        reported.update(each.key for each in fresh)
        if not any([_replace(data, known.get(each.key)) for each in fresh]):
            return


def _replace(data: dict[str, Any], field: msgspec.structs.FieldInfo | None) -> bool:
    """Take the key as if it had not been given, or, where that is what is wrong, as if it had been; False: neither."""
    if field is None or mistakes.choices(field.type):
        return False
    if field.encode_name in data and not field.required:
        del data[field.encode_name]
        return True
    if field.default is None and any(member is str for member, _ in mistakes.members(field.type)):
        data[field.encode_name] = "."
        return True
    return False


def _fits(data: Any, annotation: Any) -> bool:
    """Would the decoder take this value alone?"""
    try:
        msgspec.convert(data, annotation, strict=True)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return False
    return True


def _member(data: Any, annotation: Any) -> Any:
    """Of a union the only member of the value's shape, bare; else the first of none: nothing below is looked at."""
    members = [member for member, _ in mistakes.members(annotation)]
    if len(members) == 1:
        return members[0]
    if isinstance(data, dict):
        fitting = [each for each in members if is_model(each) or get_origin(each) is dict]
    elif isinstance(data, list):
        fitting = [each for each in members if get_origin(each) is list]
    else:
        fitting = [] if str in members else [each for each in members if mistakes.allowed(each) is not None]
    return fitting[0] if len(fitting) == 1 else None


def _spelled(model: Any) -> dict[str, str]:
    """Names of keys in tables below → where they belong, for one that was written outside its table."""
    found: dict[str, str] = {}
    for name, annotation in fields(model):
        if is_model(annotation):
            for inner, _ in fields(annotation):
                found.setdefault(inner, f"{name}.{inner}")
    return found
