"""Reads a document into a model, and finds every mistake in one that is refused.

    document ─DocumentReader.read─▶ model
        │ refused
        └─DocumentReader.find─▶ (Mistake("link.nodes_max", "must be a whole number of at least 1, is 'many'"), …)

A decoder stops at its first error, or runs a model's own checks only once every field is valid, so that five mistakes
in a file would cost five restarts.  ``find`` walks the data along the types and lets the library judge one value at a
time; the text of a mistake is made from the type (``mistakes``).  It runs only after a document was refused.

There is a reader for each of two libraries: ``STRUCTS`` (msgspec) for the agent and the wire, ``model.MODELS``
(pydantic, which costs 7 MB of memory) for the cluster's programs.  Both report mistakes in the same form.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake, join

DEPTH_MAX: Final = 50
COMBINATIONS_MAX: Final = 32

Document = TypeVar("Document")


class Field(NamedTuple):
    """A key of a model, by the name that people write, with its type and limits."""

    name: str
    type: Any
    required: bool
    default: Any = None


class DocumentReader(ABC):
    """The part that both libraries share; the five abstract methods adapt it to one of them."""

    @abstractmethod
    def is_model(self, candidate: Any) -> bool:
        """True for a model type of this library, which is a table in a file."""

    @abstractmethod
    def is_closed(self, model: Any) -> bool:
        """True when the model refuses unknown keys."""

    @abstractmethod
    def fields(self, model: Any) -> list[Field]:
        """The keys of a model, in order."""

    @abstractmethod
    def read(self, data: Any, type: type[Document]) -> Document:
        """Convert ``data`` to a model, or to any other type.  Raises ``ValueError``."""

    @abstractmethod
    def raised(self, error: ValueError) -> tuple[Mistake, ...]:
        """The mistakes inside ``error`` that were raised by a model's or a field's own check."""

    def find(self, data: Any, type: Any) -> tuple[Mistake, ...]:
        """All mistakes, in the order of the model's keys; none if ``data`` can be read.  Never raises for bad data."""
        elsewhere = self._keys_of_tables(type) if self.is_model(type) else {}
        return tuple(itertools.islice(self._walk(data, type, "", elsewhere, 0), mistakes.MISTAKES_MAX))

    def _walk(self, data: Any, type: Any, key: str, elsewhere: dict[str, str], depth: int) -> Iterator[Mistake]:
        if depth > DEPTH_MAX:
            yield Mistake(key, "nested too deeply")
            return
        shaped = self._members_of_shape(data, type)
        if isinstance(data, dict) and len(shaped) > 1:
            # If several tables are possible, the one with the fewest mistakes was probably meant.
            yield from min((list(self._walk(data, each, key, {}, depth + 1)) for each in shaped), key=len)
            return
        member = shaped[0] if len(shaped) == 1 else None
        if self.is_model(member) and isinstance(data, dict):
            yield from self._table(data, member, key, elsewhere, depth)
            return
        found: list[Mistake] = []
        if get_origin(member) is list and isinstance(data, list):
            for index, each in enumerate(data):
                found += self._walk(each, get_args(member)[0], f"{key}[{index}]", {}, depth + 1)
        elif get_origin(member) is dict and isinstance(data, dict):
            of_key, of_value = get_args(member)
            for name, each in data.items():
                found += self._walk(name, of_key, join(key, str(name)), {}, depth + 1)
                found += self._walk(each, of_value, join(key, str(name)), {}, depth + 1)
        yield from found or self._refused(data, type, member, key)

    def _refused(self, data: Any, type: Any, member: Any, key: str) -> Iterator[Mistake]:
        """Why the library refuses this value although nothing inside it is wrong."""
        try:
            self.read(data, type)
        except (ValueError, RecursionError) as error:
            if isinstance(error, ValueError) and (own := self.raised(error)):
                yield from (each.below(key) for each in own)
                return
            choices = mistakes.allowed(member)
            reason = mistakes.not_one_of(choices, data) if choices is not None else mistakes.misfit(type, data)
            yield Mistake(key, reason)

    def _table(
        self, data: dict[str, Any], model: Any, key: str, elsewhere: dict[str, str], depth: int
    ) -> Iterator[Mistake]:
        fields = {field.name: field for field in self.fields(model)}
        rest, can_judge, bad = dict(data), True, set[str]()
        switches: dict[str, tuple[Any, ...]] = {}
        for name, field in fields.items():
            if name not in data:
                if field.required:
                    can_judge = False
                    yield Mistake(join(key, name), mistakes.REQUIRED)
                continue
            if not (found := list(self._walk(data[name], field.type, join(key, name), {}, depth + 1))):
                continue
            yield from found
            # The model can check the rest without bad optional keys, but not without lists of tables.
            del rest[name]
            bad.add(name)
            can_judge = can_judge and not field.required and not self._is_list_of_tables(field.type)
            if choices := _choices(field.type):
                switches[name] = choices
        for name in [name for name in data if name not in fields and self.is_closed(model)]:
            del rest[name]
            meant = mistakes.nearest(str(name), [each for each in fields if each not in data])
            meant = join(key, meant) if meant else elsewhere.get(str(name))
            yield Mistake(join(key, str(name)), mistakes.unknown(meant))
        if can_judge and math.prod(map(len, switches.values())) <= COMBINATIONS_MAX:
            # A bad switch was meant to have one of its values: only mistakes that occur with each of them are certain.
            meanings = (dict(zip(switches, each, strict=True)) for each in itertools.product(*switches.values()))
            first, *others = [list(self._checked({**rest, **each}, fields, model, bad)) for each in meanings]
            yield from (each.below(key) for each in dict.fromkeys(first) if all(each in other for other in others))

    def _checked(self, data: dict[str, Any], fields: dict[str, Field], model: Any, bad: set[str]) -> Iterator[Mistake]:
        """The mistakes that the model's own checks find in individually valid fields.

        A check may stop at its first mistake; to find the next one, it runs again without the key it named.
        """
        data, reported = dict(data), set(bad)
        while True:
            try:
                self.read(data, model)
                return
            except ValueError as error:
                found = self.raised(error) or mistakes.of(error)
            fresh = [each for each in found if each.key not in reported or not each.key]
            yield from fresh
            reported.update(each.key for each in fresh)
            if not any([_set_aside(data, fields.get(each.key)) for each in fresh]):
                return

    def _members_of_shape(self, data: Any, type: Any) -> list[Any]:
        """The members of a union that have the value's shape, without ``Annotated``; or the type itself."""
        members = [member for member, _ in mistakes.members(type)]
        if len(members) == 1:
            return members
        if isinstance(data, dict):
            return [each for each in members if self.is_model(each) or get_origin(each) is dict]
        if isinstance(data, list):
            return [each for each in members if get_origin(each) is list]
        return [] if str in members else [each for each in members if mistakes.allowed(each) is not None]

    def _is_list_of_tables(self, type: Any) -> bool:
        lists = (member for member, _ in mistakes.members(type) if get_origin(member) is list)
        return any(self.is_model(get_args(each)[0]) for each in lists)

    def _keys_of_tables(self, model: Any) -> dict[str, str]:
        """The keys of the tables below ``model``, with their full path, for keys written outside their table."""
        tables = [field for field in self.fields(model) if self.is_model(field.type)]
        found: dict[str, str] = {}
        for table in tables:
            for below in self.fields(table.type):
                found.setdefault(below.name, f"{table.name}.{below.name}")
        return found


class StructReader(DocumentReader):
    """The reader for msgspec."""

    def is_model(self, candidate: Any) -> bool:
        return isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)

    def is_closed(self, model: Any) -> bool:
        return bool(model.__struct_config__.forbid_unknown_fields)

    def fields(self, model: Any) -> list[Field]:
        known = msgspec.structs.fields(model)
        return [Field(each.encode_name, each.type, each.required, each.default) for each in known]

    def read(self, data: Any, type: type[Document]) -> Document:
        return msgspec.convert(data, type, strict=True)

    def raised(self, error: ValueError) -> tuple[Mistake, ...]:
        # The cause of msgspec's error is the check's own error.
        return mistakes.of(error.__cause__) if error.__cause__ is not None else ()


STRUCTS: Final = StructReader()


def _choices(type: Any) -> tuple[Any, ...]:
    """The values of a switch (a choice of words, or a boolean), on which other keys may depend; () for other types."""
    for member, _ in mistakes.members(type):
        if member is bool:
            return (False, True)
        if found := mistakes.allowed(member):
            return found
    return ()


def _set_aside(data: dict[str, Any], field: Field | None) -> bool:
    """Remove an optional key, or fill in a missing one, so that it causes no more mistakes; False: not possible."""
    if field is None or _choices(field.type):
        return False
    if field.name in data and not field.required:
        del data[field.name]
        return True
    if field.default is None and any(member is str for member, _ in mistakes.members(field.type)):
        data[field.name] = "."
        return True
    return False
