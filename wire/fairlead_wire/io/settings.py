"""Settings from a TOML file and the environment, into a typed, frozen struct.

Precedence: environment over file over the struct's default.  Every key of the file is also an
environment variable: ``FAIRLEAD_<ROOM>_<KEY>``, the names of nested tables joined with ``_``
(``[delivery] maximum_delay`` of the hub is ``FAIRLEAD_HUB_DELIVERY_MAXIMUM_DELAY``).  Text from the
environment is converted by the key's type; for lists, tables and unions it is read as a TOML value first.

An unknown key or a bad value raises ``SettingsError`` with file, key and reason; programs print it and
exit with status 2.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from fairlead_wire.errors import FairleadError

FILE_BYTES_MAX = 1024 * 1024
EXIT_STATUS = 2
"""What a program exits with when its settings are wrong."""

Settings = TypeVar("Settings", bound=msgspec.Struct)

_AT = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")


class SettingsError(FairleadError):
    """A settings file or variable cannot be used: ``source`` (file or variable), ``key``, ``reason``."""

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(f"{source}: {key}: {reason}" if key else f"{source}: {reason}")
        self.source = source
        self.key = key
        self.reason = reason


def load(room: str, model: type[Settings], path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read ``path`` (None: defaults and environment only) into ``model``.  Raises ``SettingsError``."""
    values = _read(path) if path else {}
    origins = _override(values, model, f"FAIRLEAD_{room.upper()}_", environ)
    source = str(path) if path else "settings"
    try:
        return msgspec.convert(values, model, strict=True)
    except (msgspec.ValidationError, ValueError) as error:
        key, reason = _explain(str(error))
        raise SettingsError(origins.get(key, source), key, reason) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(str(path), "", error.strerror or str(error)) from None
    if len(text) > FILE_BYTES_MAX:
        raise SettingsError(str(path), "", f"larger than {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), "", f"not TOML: {error}") from None


def _override(
    values: dict[str, Any], model: type[msgspec.Struct], prefix: str, environ: Mapping[str, str], path: str = ""
) -> dict[str, str]:
    """Lay the environment over ``values``; returns which key came from which variable."""
    origins: dict[str, str] = {}
    for field in msgspec.structs.fields(model):
        name = f"{prefix}{field.encode_name.upper()}"
        key = f"{path}{field.encode_name}"
        nested = _struct_of(field.type)
        if nested is not None:
            below = values.get(field.encode_name, {})
            if isinstance(below, dict):
                found = _override(below, nested, f"{name}_", environ, f"{key}.")
                if found:
                    values[field.encode_name] = below
                    origins.update(found)
        if name in environ:
            values[field.encode_name] = _value(environ[name], field.type, name, key)
            origins[key] = name
    return origins


def _struct_of(annotation: Any) -> type[msgspec.Struct] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate
    return None


def _value(text: str, annotation: Any, name: str, key: str) -> Any:
    """Text of one variable as the key's type wants it: a TOML value when it fits, else the text itself."""
    candidates: list[Any] = []
    try:
        candidates.append(tomllib.loads(f"v = {text}")["v"])
    except tomllib.TOMLDecodeError:
        pass  # not a TOML value: the text itself is tried below, and refused with its reason if it does not fit
    candidates.append(text)
    reason = ""
    for candidate in candidates:
        try:
            msgspec.convert(candidate, annotation, strict=True)
        except (msgspec.ValidationError, ValueError) as error:
            reason = reason or _explain(str(error))[1]
        else:
            return candidate
    raise SettingsError(name, key, reason)


def _explain(text: str) -> tuple[str, str]:
    """(key, reason) out of a validation message."""
    found = _AT.match(text)
    assert found is not None
    path = (found["path"] or "").strip(".")
    reason = found["reason"]
    if unknown := _UNKNOWN.match(reason):
        return ".".join(filter(None, (path, unknown["field"]))), "unknown key"
    if missing := _MISSING.match(reason):
        return ".".join(filter(None, (path, missing["field"]))), "required, but not set"
    head, colon, tail = reason.partition(": ")
    # A model's own __post_init__ names the key itself: "http_listen: must be a loopback address".
    if colon and re.fullmatch(r"[a-z_][a-z0-9_.]*", head):
        return ".".join(filter(None, (path, head))), tail
    return path, reason
