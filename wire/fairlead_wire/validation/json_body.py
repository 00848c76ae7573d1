"""Says what is wrong with a JSON body that a program sent, in the words of ``mistakes``.

    body ─decoder of the model─▶ error ─reason_of(body, model, error)─▶ "properties.a: must be text, is 1"

Decoders stop at their first error and name types of Python.  Only a refused body of moderate size is read again: a
large one could cost more memory than a small device has, and keeps the decoder's words.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from fairlead_wire.validation.reader import Field, StructReader

READ_AGAIN_BYTES_MAX: Final = 64 * 1024
MISTAKES_MAX: Final = 5
"""Most mistakes in one answer."""
EMPTY: Final = "the body is empty"
ENDS_EARLY: Final = "the JSON ends too early: a closing quote, bracket or brace is missing"

_TRUNCATED: Final = "Input data was truncated"
_MALFORMED: Final = "JSON is malformed: "

Document = TypeVar("Document")


def reason_of(content: bytes, model: type[msgspec.Struct], error: Exception) -> str:
    """Why ``content`` is not a ``model``; ``error`` is what the decoder raised.  Never raises."""
    if not content.strip():
        return EMPTY
    if len(content) <= READ_AGAIN_BYTES_MAX:
        try:
            data = msgspec.json.decode(content)
            found = _READER.find(data, model)[:MISTAKES_MAX]
        except msgspec.DecodeError as malformed:
            return _syntax(str(malformed))
        except (ValueError, RecursionError):
            return _syntax(str(error))
        if found:
            return "; ".join(map(str, found))
    return _syntax(str(error))


def _syntax(said: str) -> str:
    if said == _TRUNCATED:
        return ENDS_EARLY
    return f"not JSON: {said.removeprefix(_MALFORMED)}" if said.startswith(_MALFORMED) else said


class _BodyReader(StructReader):
    """Bodies have parts that are kept as bytes (``Raw``), which may be anything, and parts that may be absent."""

    def fields(self, model: Any) -> list[Field]:
        return [field._replace(type=_readable(field.type)) for field in super().fields(model)]

    def read(self, data: Any, type: type[Document]) -> Document:
        return msgspec.json.decode(msgspec.json.encode(data), type=type)


def _readable(annotation: Any) -> Any:
    if annotation is msgspec.Raw:
        return Any
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is list:
        return list[_readable(inner[0])]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        kept = tuple(_present(inner))
        return Union[kept]  # noqa: UP007 - of a tuple
    return annotation


def _present(members: tuple[Any, ...]) -> Iterator[Any]:
    return (_readable(each) for each in members if each is not msgspec.UnsetType)


_READER: Final = _BodyReader()
