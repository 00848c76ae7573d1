"""Every mistake in a document that a pydantic model should have: what people write in the cluster.

    document ─validate→ ValidationError ─in words→ Mistakes
        ▲                                    │
        └── once more, without what was bad ─┘   so that the model's own checks are asked about the rest

pydantic reports all fields at once, but it asks a model's own checks only when every field is good, repeats a refusal
for each member of a union, and gives checks over several fields no key: here those raise ``mistakes.Wrong``.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar, cast, get_args

import pydantic
from pydantic.fields import FieldInfo

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake, join

Document = TypeVar("Document")

_SHAPES: Final = ("_type", "_parsing", "is_instance_of", "none_required", "literal_error")
"""How pydantic's codes end for a value of another kind than the member of a union it was tried with."""


class _Step(NamedTuple):
    """From a document to a value in it: ``holder[key]``, of which ``model`` (if any) says what may stand there."""

    holder: Any
    key: str | int
    model: Any


class _Found(NamedTuple):
    mistake: Mistake
    path: tuple[_Step, ...]
    asked: Any = None
    """The model whose own check this is, with the data it saw; None: the place itself is wrong."""
    seen: Any = None


class _Place(NamedTuple):
    """Where an error is; ``union`` (how many steps down) when the value was tried with members of a union there."""

    path: tuple[_Step, ...]
    annotation: Any
    value: Any
    union: int | None
    outer: Any
    """What may stand at the union as a whole."""
    member: str
    """Of the union, the one it was tried with."""


def is_model(candidate: Any) -> bool:
    """A pydantic model, which is a table of a file."""
    return isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel)


def fields(model: Any) -> list[tuple[str, Any]]:
    """The keys of a model as one writes them, each with its type and limits."""
    return [(name, _annotation(field)) for name, field in _fields(model).items()]


def read(data: Any, model: type[Document]) -> Document:
    """Raises ``pydantic.ValidationError``, which is a ``ValueError``."""
    return cast(Document, cast(Any, model).model_validate(data))


def find(data: Any, model: Any) -> tuple[Mistake, ...]:
    """All mistakes; empty when ``data`` can be read.  Never raises for bad data."""
    try:
        found = _rounds(copy.deepcopy(data), model, [])
        bad = [each.mistake.key for each in found if not each.mistake.key or each.asked is None]
        switches = {tuple(step.key for step in each.path): choices for each in found if (choices := _switch(each))}
        meant = mistakes.combinations(switches) if switches else ()
        more = mistakes.in_all([[each.mistake for each in _rounds(_with(data, one), model, bad)] for one in meant])
    except RecursionError:
        return (Mistake("", "nested too deeply"),)
    said = dict.fromkeys([*(each.mistake for each in found), *more])
    return tuple(said)[: mistakes.MISTAKES_MAX]


def _rounds(rest: Any, model: Any, bad: Sequence[str]) -> list[_Found]:
    """Ask again and again, each time without what was bad; nothing is said twice, nor about what was set aside."""
    found: list[_Found] = []
    reported = list(bad)
    refused = _refused(rest, model)
    known = [each for each in refused if _is_reported(each.mistake, found, reported)]
    while len(found) < mistakes.MISTAKES_MAX:
        fresh = [each for each in refused if not _is_reported(each.mistake, found, reported)]
        found += fresh
        reported += [each.mistake.key for each in fresh if each.mistake.key]
        if not any([_set_aside(each) for each in (*known, *fresh)]):
            break
        refused, known = _refused(rest, model), []
    return found


def _is_reported(mistake: Mistake, found: Sequence[_Found], reported: Sequence[str]) -> bool:
    if not mistake.key:
        return any(each.mistake == mistake for each in found)
    return any(key == mistake.key or key.startswith((f"{mistake.key}.", f"{mistake.key}[")) for key in reported)


def _switch(found: _Found) -> tuple[Any, ...]:
    """The values of a bad switch, of which one was meant."""
    if found.asked is not None or any(step.model is None for step in found.path):
        return ()
    field = _fields(found.path[-1].model).get(str(found.path[-1].key)) if found.path else None
    return mistakes.choices(field.annotation) if field is not None else ()


def _with(data: Any, chosen: Mapping[tuple[str | int, ...], Any]) -> Any:
    """The document with other values at these places."""
    document = copy.deepcopy(data)
    for (*above, last), value in chosen.items():
        table = document
        for key in above:
            table = table[key]
        table[last] = value
    return document


def find_value(value: Any, annotation: Any) -> tuple[Mistake, ...]:
    """The same for one value."""
    one = pydantic.create_model(
        "One", __config__=pydantic.ConfigDict(strict=True, allow_inf_nan=False), value=(annotation, ...)
    )
    return tuple(
        Mistake(each.key.removeprefix("value").removeprefix("."), each.reason) for each in find({"value": value}, one)
    )


def of(error: pydantic.ValidationError, data: Any, model: Any) -> tuple[Mistake, ...]:
    """What pydantic said of ``data``, in our words.  ``find`` may know more: it asks the model's own checks too."""
    return tuple(each.mistake for each in _in_words(error, data, model))


def _refused(data: Any, model: Any) -> list[_Found]:
    try:
        model.model_validate(data)
    except pydantic.ValidationError as error:
        return list(_in_words(error, data, model))
    return []


def _in_words(error: pydantic.ValidationError, data: Any, model: Any) -> Iterator[_Found]:
    tried: dict[tuple[str | int, ...], list[tuple[Any, _Place]]] = {}
    for each in error.errors(include_url=False):
        place = _follow(each["loc"], data, model)
        if place.union is None:
            yield from _said(each, place, data, model)
        else:
            tried.setdefault(tuple(step.key for step in place.path[: place.union]), []).append((each, place))
    for one in tried.values():
        yield from _said_by_members(one, data, model)


def _said_by_members(tried: Sequence[tuple[Any, _Place]], data: Any, model: Any) -> Iterator[_Found]:
    """Of a union only the members of the value's shape are heard; without any, the union speaks as one."""
    fitting = [
        (error, place)
        for error, place in tried
        if len(place.path) != place.union or not error["type"].endswith(_SHAPES)
    ]
    if fitting and all(len(place.path) != place.union or "error" in error.get("ctx", {}) for error, place in fitting):
        # Of several members of one shape the one that fits best was probably meant.
        meant = Counter(place.member for _, place in fitting).most_common()[-1][0]
        for error, place in fitting:
            if place.member == meant:
                yield from _said(error, place, data, model)
        return
    _, place = tried[0]
    path = place.path[: place.union]
    value = path[-1].holder[path[-1].key] if path else data
    yield _Found(Mistake(_written(path), mistakes.misfit(place.outer, value)), path)


def _said(error: Any, place: _Place, data: Any, model: Any) -> Iterator[_Found]:
    key, value = _written(place.path), place.value
    raised = error.get("ctx", {}).get("error")
    if error["type"] == "extra_forbidden":
        yield _Found(Mistake(key, mistakes.unknown(_meant(place.path, model))), place.path)
    elif error["type"] == "missing":
        yield _Found(Mistake(key, mistakes.REQUIRED), place.path)
    elif raised is not None:
        for each in mistakes.of(raised):
            own = next((member for member, _ in mistakes.members(place.annotation) if is_model(member)), None)
            yield _Found(each.below(key), place.path, own and (own, each.key), value)
    else:
        choices = [choice for each, _ in mistakes.members(place.annotation) for choice in mistakes.allowed(each) or ()]
        reason = mistakes.not_one_of(choices, value) if choices else mistakes.misfit(place.annotation, value)
        yield _Found(Mistake(key, reason), place.path)


def _follow(location: tuple[str | int, ...], data: Any, model: Any) -> _Place:
    """Walk beside the types: a union puts the name of the member into the location, where no person wrote it."""
    path: list[_Step] = []
    value, annotation, outer, union, tried = data, model, None, None, ""
    for part in location:
        several = [each for each in mistakes.members(annotation) if each[0] is not type(None)]
        if len(several) > 1:
            if union is None:
                union, outer, tried = len(path), annotation, str(part)
            annotation = _member(several, str(part))
            continue
        bare = several[0][0] if several else annotation
        known = _fields(bare).get(str(part)) if is_model(bare) else None
        if isinstance(value, list) and isinstance(part, int):
            below = value[part]
        elif isinstance(value, dict) and (part in value or known is not None):
            below = value.get(part)
        else:
            continue  # the name of a check, or of a key's own type
        path.append(_Step(value, part, bare if is_model(bare) else None))
        annotation = _annotation(known) if known is not None else (get_args(bare) or (Any,))[-1]
        value = below
    return _Place(tuple(path), annotation, value, union, outer, tried)


def _member(several: list[tuple[Any, tuple[Any, ...]]], called: str) -> Any:
    named = [each for each in several if getattr(each[0], "__name__", str(each[0])) in called]
    member, limits = (named or several)[0]
    return Annotated[(member, *limits)] if limits else member


def _set_aside(found: _Found) -> bool:
    """Take what is wrong as if it had not been given, so that the rest can still be judged; False: it cannot be."""
    if found.asked is not None:
        model, key = found.asked
        return _replace(found.seen, key, _fields(model).get(key))
    for step in reversed(found.path):
        field = _fields(step.model).get(str(step.key)) if step.model is not None else None
        if isinstance(step.holder, list) and isinstance(step.holder[int(step.key)], dict):
            return False  # without one of its tables a list would say something else
        if not isinstance(step.holder, dict) or step.key not in step.holder:
            continue
        if field is None or not (field.is_required() or mistakes.choices(field.annotation)):
            del step.holder[step.key]
            return True
    return False


def _replace(data: Any, key: str, field: FieldInfo | None) -> bool:
    """As if the key had not been given, or, where that is what is wrong, as if it had been."""
    if field is None or not isinstance(data, dict) or mistakes.choices(field.annotation):
        return False
    if key in data and not field.is_required():
        del data[key]
        return True
    if key not in data and any(member is str for member, _ in mistakes.members(field.annotation)):
        data[key] = "."
        return True
    return False


def _meant(path: tuple[_Step, ...], model: Any) -> str | None:
    """The key that was probably meant: one of this table, or one of a table below the document's own keys."""
    *above, last = path
    names = [name for name in _fields(last.model) if name not in last.holder] if last.model is not None else []
    near = mistakes.nearest(str(last.key), names)
    if near or above:
        return near and join(_written(tuple(above)), near)
    for name, annotation in fields(model):
        if is_model(annotation) and last.key in _fields(annotation):
            return f"{name}.{last.key}"
    return None


def _written(path: tuple[_Step, ...]) -> str:
    """The path as one writes it."""
    key = ""
    for step in path:
        key = join(key, f"[{step.key}]" if isinstance(step.holder, list) else str(step.key))
    return key


def _fields(model: Any) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _annotation(field: FieldInfo) -> Any:
    """A field's type together with the limits that pydantic keeps apart from it."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
