"""The base class for settings of hub, messaging and ingest, and for custom resources.

The models are strict (a number in quotes is not a number) and frozen, and refuse unknown keys.  The agent never imports
this module: it reads msgspec structs, which need less memory than pydantic.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, cast

import pydantic

from fairlead_wire.validation import listen_address, mistakes
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.reader import Document, DocumentReader, Field

_STRICT: Final = pydantic.ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class Model(pydantic.BaseModel):
    """A document that was read, with its defaults filled in."""

    model_config = pydantic.ConfigDict(**_STRICT, frozen=True, extra="forbid")


def _listen_address(text: str) -> str:
    listen_address.parse(text)
    return text


ListenAddress = Annotated[str, pydantic.AfterValidator(_listen_address)]
"""``host:port``, with IPv6 addresses in brackets."""


class ModelReader(DocumentReader):
    """The reader for pydantic."""

    def is_model(self, candidate: Any) -> bool:
        return isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel)

    def is_closed(self, model: Any) -> bool:
        return bool(model.model_config.get("extra") == "forbid")

    def fields(self, model: Any) -> list[Field]:
        return _fields(model)

    def read(self, data: Any, type: type[Document]) -> Document:
        if self.is_model(type):
            return cast(Document, cast(Any, type).model_validate(data))
        annotation: Any = type
        try:
            adapter = _adapter(annotation)
        except TypeError:  # limits that cannot be hashed
            adapter = _adapter.__wrapped__(annotation)
        return cast(Document, adapter.validate_python(data))

    def raised(self, error: ValueError) -> tuple[Mistake, ...]:
        details = error.errors(include_url=False) if isinstance(error, pydantic.ValidationError) else []
        own = (each["ctx"]["error"] for each in details if "error" in each.get("ctx", {}))
        return tuple(found for each in own for found in mistakes.of(each))


MODELS: Final = ModelReader()


@cache
def _fields(model: Any) -> list[Field]:
    return [
        Field(
            field.alias or name,
            # pydantic stores a field's limits separately from its type.
            Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation,
            field.is_required(),
            field.default,
        )
        for name, field in model.model_fields.items()
    ]


@cache
def _adapter(type: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(type, config=_STRICT)
