"""Reads settings from a TOML file and the environment into a typed, frozen value.

The environment takes precedence over the file, and the file over the model's defaults.  Every key of the file is also
an environment variable, ``FAIRLEAD_<ROOM>_<KEY>``, with the names of nested tables joined by ``_``
(``[delivery] maximum_delay`` of the hub is ``FAIRLEAD_HUB_DELIVERY_MAXIMUM_DELAY``).  The text of a variable is
read as a TOML value if that fits the key's type, and as plain text otherwise.

Unknown keys, variables of the room that match no key, and bad values raise ``SettingsError`` with every mistake, each
with its file or variable, key and reason; programs print it and exit with status 2.  Variables that begin with
``FAIRLEAD_`` but belong to no room are logged (``unknown_variables``) and otherwise ignored.

The agent's model is a msgspec struct, those of the cluster's programs are pydantic models; ``validation.reader`` reads
both.

A model may also accept another program's names for the same settings (``OTHER_NAMES``, by path):

    {"checkEntireQueueOnCleanup": true}           in a file ───▶ {"cleanup": {"check_entire_queue_on_cleanup": true}}
    storeAndForwardConfiguration='{"timeToLive…'  a variable ──▶ FAIRLEAD_EDGE_STORE_DEFAULT_TTL_SECONDS=…

Such a variable is named after the first part of the other name, in upper or lower case, with or without the room's
prefix; for a longer path its value is JSON.  Using both names is a mistake, because one of the values would be ignored.
"""

from __future__ import annotations

import json
import os.path
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FILE_PATH
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.reader import STRUCTS, DocumentReader

FILE_MIB_MAX = 1
FILE_BYTES_MAX = FILE_MIB_MAX * 1024 * 1024
VARIABLE_CHARS_MAX = 4096
"""Largest variable under another program's name that is read as JSON."""
EXIT_STATUS = 2
"""Exit status of a program whose settings are wrong."""
ROOMS = ("hub", "edge", "messaging", "ingest")
KNOWN_VARIABLES = frozenset(["FAIRLEAD_HUB_URL", "FAIRLEAD_MESSAGING_URL"])
"""Not settings of a room: commands read them to find the hub and the messaging service."""

Settings = TypeVar("Settings")

_PREFIX = "FAIRLEAD_"
_SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$"
)
"""Variables that a kubelet sets in every container for each Service of the namespace; they are not mistakes."""
_TWICE = re.compile(r"Cannot (?:overwrite a value|declare .* twice) \(at (?:line (?P<line>\d+)|end of document)")
_log = logs.get("wire.settings")


class SettingsError(FairleadError):
    """Settings that cannot be used.

    ``mistakes`` has one error for each mistake; ``source`` (file or variable), ``key`` and ``reason`` describe the
    first.  ``str()`` has a line for each.
    """

    def __init__(self, source: str, key: str, reason: str, *, more: tuple[SettingsError, ...] = ()) -> None:
        first = f"{source}: {key}: {reason}" if key else f"{source}: {reason}"
        super().__init__("\n".join([first, *map(str, more)]))
        self.source = source
        self.key = key
        self.reason = reason
        self.mistakes: tuple[SettingsError, ...] = (self, *more)


def load(room: str, model: type[Settings], path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read ``path`` (None: only the environment and defaults) into ``model``.  Raises ``SettingsError``."""
    values = _read(path) if path else {}
    source = str(path) if path else "settings"
    reader = _reader(model)
    prefix, names = f"{_PREFIX}{room.upper()}_", _other_names(model)
    twice = [SettingsError(source, each.key, each.reason) for each in _rename_in_file(values, names)]
    moved = _rename_variables(environ, prefix, model)
    twice += [SettingsError(name, each.key, each.reason) for name, each in moved.mistakes]
    overlay = _Overlay(prefix, moved.environ, reader, moved.called)
    overlay.lay(values, model)
    found = [*twice, *overlay.refused, *overlay.unknown()]
    _expand(values, model, environ.get("HOME"), reader)
    if not found:
        try:
            return reader.read(values, model)
        except ValueError as error:
            said = reader.find(values, model) or mistakes.of(error)
    else:
        reported = {*overlay.unread, *(each.key for each in found)}
        said = tuple(each for each in reader.find(values, model) if each.key not in reported)
    said = tuple(_in_toml(each, values, model, reader) for each in said)
    found += [SettingsError(overlay.origins.get(each.key, source), each.key, each.reason) for each in said]
    first, *more = found
    raise SettingsError(first.source, first.key, first.reason, more=tuple(more))


def _reader(model: Any) -> DocumentReader:
    if STRUCTS.is_model(model):
        return STRUCTS
    from fairlead_wire.validation.model import MODELS  # costs memory that the agent does not have

    return MODELS


def complain(room: str, error: SettingsError) -> int:
    """Print each mistake on its own line; return the exit status."""
    for mistake in error.mistakes:
        print(f"fairlead {room}: {mistake.args[0].partition(chr(10))[0]}", file=sys.stderr)
    return EXIT_STATUS


def warn_unknown_variables(environ: Mapping[str, str]) -> None:
    """Log variables that begin with ``FAIRLEAD_`` and belong to no room.  Call it once logs are configured."""
    for name, meant in unknown_variables(environ):
        _log.warning("unknown_variable", variable=name, reason=_did_you_mean("not a variable of Fairlead", meant))


def unknown_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that begin with ``FAIRLEAD_`` and belong to no room, each with the name that was probably meant."""
    prefixes = [f"{_PREFIX}{room.upper()}_" for room in ROOMS]
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or name.startswith(tuple(prefixes)) or _SERVICE_LINK.search(name):
            continue
        room, _, rest = name.removeprefix(_PREFIX).partition("_")
        meant = mistakes.nearest(room.lower(), list(ROOMS))
        yield name, f"{_PREFIX}{meant.upper()}_{rest}" if meant else None


def _did_you_mean(reason: str, meant: str | None) -> str:
    return f"{reason}; did you mean {meant}?" if meant else reason


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(str(path), "", error.strerror or str(error)) from None
    if len(text) > FILE_BYTES_MAX:
        raise SettingsError(
            str(path), "", f"a settings file may have at most {FILE_MIB_MAX} MiB; is this the right file?"
        )
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # of TOML, of UTF-8, or of a number with thousands of digits
        reason = _given_twice(text, str(error)) or f"not TOML: {error}"
        raise SettingsError(str(path), "", reason) from None
    except RecursionError:
        raise SettingsError(str(path), "", "not TOML: nested too deeply") from None


def _given_twice(text: bytes, said: str) -> str:
    """The key or table that a file has twice, with its second line, if ``said`` (by the reader of TOML) means that."""
    if not (found := _TWICE.match(said)):
        return ""
    lines = text.decode().rstrip().split("\n")
    number = int(found["line"] or len(lines))
    line = lines[number - 1].strip() if number <= len(lines) else ""
    if line.startswith("["):
        return f"{mistakes.shown(line)[1:-1]} is given twice (line {number}): put its keys into one table"
    key, equals, _ = line.partition("=")
    return f"{mistakes.shown(key.strip())[1:-1]} is set twice (line {number})" if equals else ""


def _in_toml(mistake: Mistake, values: dict[str, Any], model: Any, reader: DocumentReader) -> Mistake:
    """A table where a list of tables is needed is a mistake of brackets."""
    *above, name = mistake.key.split(".")
    for part in above:
        model = next((_table_of(field.type, reader) for field in reader.fields(model) if field.name == part), None)
        if model is None:
            return mistake
    field = next((field for field in reader.fields(model) if field.name == name), None)
    if field is None or _table(values, [*above, name]) is None:
        return mistake
    lists = (member for member, _ in mistakes.members(field.type) if get_origin(member) is list)
    if any(reader.is_model(get_args(each)[0]) for each in lists):
        return Mistake(mistake.key, f"there may be several: write [[{mistake.key}]], with two brackets")
    return mistake


class _Overlay:
    """Overrides values of the file with those of the environment.  ``origins`` maps each such key to its variable."""

    def __init__(
        self, prefix: str, environ: Mapping[str, str], reader: DocumentReader, called: Mapping[str, str] | None = None
    ) -> None:
        self._called = called or {}
        """Our variable → its name in the environment, where that is another program's name."""
        self._prefix = prefix
        self._reader = reader
        self._environ = environ
        self._known: set[str] = set()
        self.origins: dict[str, str] = {}
        self.refused: list[SettingsError] = []
        self.unread: set[str] = set()
        """Keys whose variable was refused: no other mistake is reported for them."""

    def lay(self, values: dict[str, Any], model: Any, prefix: str = "", path: str = "") -> bool:
        """Apply the variables of a table and those below it; True if there were any."""
        prefix = prefix or self._prefix
        any_here = False
        for own, annotation, *_ in self._reader.fields(model):
            name = f"{prefix}{own.upper()}"
            key = f"{path}{own}"
            self._known.add(name)
            nested = _table_of(annotation, self._reader)
            if nested is not None:
                below = values.get(own, {})
                if isinstance(below, dict) and self.lay(below, nested, f"{name}_", f"{key}."):
                    values[own] = below
                    any_here = True
            if name in self._environ:
                any_here = True
                self.origins[key] = called = self._called.get(name, name)
                try:
                    values[own] = _value(self._environ[name], annotation, self._reader)
                except mistakes.Wrong as error:
                    values.pop(own, None)
                    self.unread.add(key)
                    found = (each.below(key) for each in error.mistakes)
                    self.refused += (SettingsError(called, each.key, each.reason) for each in found)
        return any_here

    def unknown(self) -> Iterator[SettingsError]:
        """Variables with this room's prefix that match no key: the default would silently apply."""
        for name in sorted(self._environ):
            if not name.startswith(self._prefix) or name in self._known | KNOWN_VARIABLES or _SERVICE_LINK.search(name):
                continue
            meant = mistakes.nearest(name, sorted(self._known - self._environ.keys()))
            yield SettingsError(name, "", _did_you_mean("is not a key of these settings", meant))


def _expand(values: dict[str, Any], model: Any, home: str | None, reader: DocumentReader) -> None:
    """Expand ``~`` in paths, as a shell would have done."""
    for name, annotation, *_ in reader.fields(model):
        value = values.get(name)
        nested = _table_of(annotation, reader)
        if nested is not None and isinstance(value, dict):
            _expand(value, nested, home, reader)
        elif isinstance(value, list) and get_args(annotation):
            for each in value:
                if isinstance(each, dict) and (inner := _table_of(get_args(annotation)[0], reader)):
                    _expand(each, inner, home, reader)
        elif isinstance(value, str) and value.startswith("~") and _is_path(annotation):
            ours = home if home and value[1:2] in ("", "/") else None
            values[name] = ours + value[1:] if ours else os.path.expanduser(value)


def _is_path(annotation: Any) -> bool:
    if getattr(annotation, "__metadata__", ()) == (FILE_PATH,):
        return True
    return any(_is_path(each) for each in get_args(annotation))


def _table_of(annotation: Any, reader: DocumentReader) -> Any:
    """The model of a key that is a table; None for any other key, also for a list of tables."""
    return next((member for member, _ in mistakes.members(annotation) if reader.is_model(member)), None)


def _value(text: str, annotation: Any, reader: DocumentReader) -> Any:
    """The value of a variable: the text as a TOML value if that fits the key's type, else the text itself.

    Raises ``mistakes.Wrong`` if neither fits, about the TOML value if the text is one.
    """
    candidates: list[Any] = []
    try:
        candidates.append(tomllib.loads(f"v = {text}")["v"])
    except (ValueError, RecursionError):
        pass  # not a TOML value: only the text itself is tried
    candidates.append(text)
    refused: tuple[mistakes.Mistake, ...] = ()
    for candidate in candidates:
        found = reader.find(candidate, annotation)
        if not found:
            return candidate
        refused = refused or found
    raise mistakes.Wrong(*refused)


# ── names of other programs ───────────────────────────────────────────────────────────────────────────────────────────


class _RenamedVariables(NamedTuple):
    """``environ`` with only our names; ``called``: our name → the original name; ``mistakes``: by variable."""

    environ: dict[str, str]
    called: dict[str, str]
    mistakes: list[tuple[str, Mistake]]


def _other_names(model: Any) -> Mapping[str, str]:
    """Other name → our name, both as dotted paths."""
    found: Mapping[str, str] = getattr(model, "OTHER_NAMES", {})
    return found


def _variable(prefix: str, name: str) -> str:
    return f"{prefix}{name.replace('.', '_').upper()}"


def _rename_in_file(values: dict[str, Any], names: Mapping[str, str]) -> Iterator[Mistake]:
    """Rename keys of ``values`` from another program's name to ours; yields the mistakes."""
    for other, own in names.items():
        *place, key = own.split(".")
        places = [other.split("."), *([[*place, other]] if "." not in other else [])]  # also within our key's table
        for *above, last in places:
            table = _table(values, above)
            if above and table == {}:
                del (_table(values, above[:-1]) or {})[above[-1]]  # an empty table has no effect
            if not table or last not in table or isinstance(table[last], dict):
                continue  # only values have other names, never tables
            value = table.pop(last)
            if above and not table:  # if other keys remain in that table, they are refused as unknown
                del (_table(values, above[:-1]) or {})[above[-1]]
            target = values
            for part in place:
                target = target.setdefault(part, {}) if isinstance(target.get(part, {}), dict) else {}
            if key in target:
                yield Mistake(".".join((*above, last)), f"is {own} under another name; give one of them")
            else:
                target[key] = value


def _rename_variables(environ: Mapping[str, str], prefix: str, model: Any) -> _RenamedVariables:
    """Rename variables from another program's name to ours; ``prefix`` is the room's."""
    moved = _RenamedVariables(dict(environ), {}, [])
    for other, own in _other_names(model).items():
        first, *below = other.split(".")
        ours, whole = _variable(prefix, own), _variable(prefix, other)
        wanted = {f"{prefix}{first}".lower(), whole.lower(), first.lower()}
        for name in sorted(each for each in environ if each.lower() in wanted and each != ours):
            moved.environ.pop(name, None)
            value = environ[name] if name == whole else _member(environ[name], below)
            if isinstance(value, Mistake):
                moved.mistakes.append((name, value))
            elif value is not None and ours in moved.environ:
                moved.mistakes.append((name, Mistake("", f"is {moved.called.get(ours, ours)} under another name")))
            elif value is not None:
                moved.environ[ours] = value
                moved.called[ours] = name
    return moved


def _table(values: Any, path: list[str]) -> dict[str, Any] | None:
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else None


def _member(text: str, path: list[str]) -> str | Mistake | None:
    """The value at ``path`` in the JSON of a variable, as the text of our variable; None if it is absent."""
    if not path:
        return text.lower() if text.lower() in ("true", "false") else text
    example = json.dumps({path[0]: 7200})
    try:
        found = json.loads(text) if len(text) <= VARIABLE_CHARS_MAX else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Mistake("", f"must be JSON like {example}")
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return None if found is None else json.dumps(found)
