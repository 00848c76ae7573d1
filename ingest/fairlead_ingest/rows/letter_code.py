"""The machine-readable reason why a message is a dead letter: a code and the fields concerned.

The code is derived from the payload itself, not from the decoders' error texts, which may change.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from fairlead_ingest.rows import envelope
from fairlead_ingest.rows.fitting import MISFITS_MAX

NOT_UTF8 = "not_utf8"
NOT_JSON = "not_json"
NOT_AN_OBJECT = "not_an_object"
TOO_DEEP = "too_deep"
BAD_FIELD = "bad_field"
"""A field of the envelope is missing or invalid."""
MISFIT = "misfit"
"""The body does not fit the job's schema."""
OTHER = "other"
"""A transform of the job rejected it, or it made its batch fail."""
CODES = (NOT_UTF8, NOT_JSON, NOT_AN_OBJECT, TOO_DEEP, BAD_FIELD, MISFIT, OTHER)

_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TYPES: dict[str, Any] = typing.get_type_hints(envelope.Envelope, include_extras=True)
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in _TYPES.items()}
_REQUIRED = tuple(field.name for field in msgspec.structs.fields(envelope.Envelope) if field.required)
_MAPS = ("properties", "systemProperties")
_NULL = b"null"


class LetterCode(NamedTuple):
    """``fields`` are fields of the envelope, or for a misfit columns of the body."""

    code: str
    fields: Sequence[str] = ()


def of(payload: bytes | None, misfits: Sequence[str] | None) -> LetterCode:
    """The code. ``payload`` is the one that could not be decoded, None for a decoded row; ``misfits`` are the columns
    that did not fit, None if the reason is another one."""
    if payload is None:
        return LetterCode(OTHER) if misfits is None else LetterCode(MISFIT, tuple(misfits[:MISFITS_MAX]))
    return of_payload(payload) or LetterCode(OTHER)


def of_payload(payload: bytes) -> LetterCode | None:
    """Why this payload is not an upstream message; None if it is one."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return LetterCode(NOT_UTF8)
    if envelope.is_too_deep(payload):
        return LetterCode(TOO_DEEP)
    try:
        fields = _RAW_FIELDS.decode(payload)
    except msgspec.ValidationError:
        return LetterCode(NOT_AN_OBJECT)
    except (msgspec.DecodeError, RecursionError):
        return LetterCode(NOT_JSON)
    bad = [name for name in _TYPES if not _is_good(name, fields)]
    return LetterCode(BAD_FIELD, tuple(bad)) if bad else None


def _is_good(name: str, fields: dict[str, msgspec.Raw]) -> bool:
    raw = fields.get(name)
    if name == "body" and raw is None:
        return "bodyBase64" in fields and bytes(fields["bodyBase64"]) != _NULL
    if raw is None:
        return name not in _REQUIRED
    text = bytes(raw)
    if name in _MAPS:
        return text.startswith(b"{") or text == _NULL
    try:
        value = _DECODERS[name].decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return name != "enqueued_at" or value is None or envelope.is_in_range(value)
