"""Settings from a TOML file and the environment, into a typed, frozen value.

Precedence: environment over file over the model's default.  Every key of the file is also an
environment variable: ``FAIRLEAD_<ROOM>_<KEY>``, the names of nested tables joined with ``_``
(``[delivery] maximum_delay`` of the hub is ``FAIRLEAD_HUB_DELIVERY_MAXIMUM_DELAY``).  Text from the
environment is converted by the key's type; for lists, tables and unions it is read as a TOML value first.

Unknown keys, variables of the room that are none of its keys, and bad values raise ``SettingsError`` with every
mistake, each with file (or variable), key and reason; programs print it and exit with status 2.  Variables that begin
with ``FAIRLEAD_`` and belong to no room are reported (``unknown_variables``), and ignored.

The agent's model is a msgspec struct, those of the cluster's programs are pydantic models; ``validation.reader`` reads
both.

A model may also accept the names that another program gives to the same settings (``OTHER_NAMES``, by path):

    {"checkEntireQueueOnCleanup": true}           in a file ───▶ {"cleanup": {"check_entire_queue_on_cleanup": true}}
    storeAndForwardConfiguration='{"timeToLive…'  a variable ──▶ FAIRLEAD_EDGE_STORE_DEFAULT_TTL_SECONDS=…

Such a variable has the first part of the other name, in any case, with or without the room's prefix; for a longer path
it holds JSON.  Both names at once are a mistake, because one of the two values would be ignored.
"""

from __future__ import annotations

import json
import os.path
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FILE_PATH
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.reader import STRUCTS, Reader

FILE_BYTES_MAX = 1024 * 1024
VARIABLE_CHARS_MAX = 4096
"""Length of a variable that is read as JSON, under another program's name."""
EXIT_STATUS = 2
"""What a program exits with when its settings are wrong."""
ROOMS = ("hub", "edge", "messaging", "ingest")
KNOWN_VARIABLES = frozenset(["FAIRLEAD_HUB_URL", "FAIRLEAD_MESSAGING_URL"])
"""Not settings of a room, but read by the commands that ask one."""

Settings = TypeVar("Settings")

_PREFIX = "FAIRLEAD_"
_SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$"
)
"""Variables that a kubelet adds to every container for each Service of the namespace; not a person's mistake."""
_log = logs.get("wire.settings")


class SettingsError(FairleadError):
    """Settings that cannot be used.  ``mistakes``: all of them; ``source`` (file or variable), ``key`` and ``reason``
    are the first one's.  ``str()`` has a line for each."""

    def __init__(self, source: str, key: str, reason: str, *, more: tuple[SettingsError, ...] = ()) -> None:
        first = f"{source}: {key}: {reason}" if key else f"{source}: {reason}"
        super().__init__("\n".join([first, *map(str, more)]))
        self.source = source
        self.key = key
        self.reason = reason
        self.mistakes: tuple[SettingsError, ...] = (self, *more)


def load(room: str, model: type[Settings], path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read ``path`` (None: defaults and environment only) into ``model``.  Raises ``SettingsError``."""
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
    found += [SettingsError(overlay.origins.get(each.key, source), each.key, each.reason) for each in said]
    first, *more = found
    raise SettingsError(first.source, first.key, first.reason, more=tuple(more))


def _reader(model: Any) -> Reader:
    if STRUCTS.is_model(model):
        return STRUCTS
    from fairlead_wire.validation.model import MODELS  # costs memory that the agent does not have

    return MODELS


def complain(room: str, error: SettingsError) -> int:
    """Print every mistake on a line of its own; returns the exit status."""
    for mistake in error.mistakes:
        print(f"fairlead {room}: {mistake.args[0].partition(chr(10))[0]}", file=sys.stderr)
    return EXIT_STATUS


def warn_unknown_variables(environ: Mapping[str, str]) -> None:
    """Log variables that begin with FAIRLEAD_ and belong to no room; call it when logs are configured."""
    for name, meant in unknown_variables(environ):
        _log.warning("unknown_variable", variable=name, reason=_did_you_mean("not a variable of Fairlead", meant))


def unknown_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that begin like ours and belong to no room, each with the room's prefix that was probably meant."""
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
        raise SettingsError(str(path), "", f"larger than {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # of TOML, of UTF-8, or of a number with thousands of digits
        raise SettingsError(str(path), "", f"not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(str(path), "", "not TOML: nested too deeply") from None


class _Overlay:
    """The environment, laid over what the file says.  Which key came from which variable is in ``origins``."""

    def __init__(
        self, prefix: str, environ: Mapping[str, str], reader: Reader, called: Mapping[str, str] | None = None
    ) -> None:
        self._called = called or {}
        """The name a variable has in the environment, if it is not its own."""
        self._prefix = prefix
        self._reader = reader
        self._environ = environ
        self._known: set[str] = set()
        self.origins: dict[str, str] = {}
        self.refused: list[SettingsError] = []
        self.unread: set[str] = set()
        """Keys whose variable was refused: nothing else can be said about them."""

    def lay(self, values: dict[str, Any], model: Any, prefix: str = "", path: str = "") -> bool:
        """True when a variable was for this table, or one below it."""
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
        """Variables of this room that are no key of it: a default would be in force where a value was meant."""
        for name in sorted(self._environ):
            if not name.startswith(self._prefix) or name in self._known | KNOWN_VARIABLES or _SERVICE_LINK.search(name):
                continue
            meant = mistakes.nearest(name, sorted(self._known - self._environ.keys()))
            yield SettingsError(name, "", _did_you_mean("is not a key of these settings", meant))


def _expand(values: dict[str, Any], model: Any, home: str | None, reader: Reader) -> None:
    """``~`` in the paths, which a shell would have replaced and a TOML file does not."""
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


def _table_of(annotation: Any, reader: Reader) -> Any:
    """The table a key is, if it is one; a list of tables is none."""
    return next((member for member, _ in mistakes.members(annotation) if reader.is_model(member)), None)


def _value(text: str, annotation: Any, reader: Reader) -> Any:
    """Text of one variable as the key's type wants it: a TOML value when it fits, else the text itself.

    Raises ``mistakes.Wrong``: of the TOML value, if it is one.
    """
    candidates: list[Any] = []
    try:
        candidates.append(tomllib.loads(f"v = {text}")["v"])
    except (ValueError, RecursionError):
        pass  # not a TOML value: the text itself is tried below, and refused with its reason if it does not fit
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
    """``environ`` with our names only; ``called``: our variable → the name it had; ``mistakes`` by variable."""

    environ: dict[str, str]
    called: dict[str, str]
    mistakes: list[tuple[str, Mistake]]


def _other_names(model: Any) -> Mapping[str, str]:
    """Other name → ours, both as paths with dots."""
    found: Mapping[str, str] = getattr(model, "OTHER_NAMES", {})
    return found


def _variable(prefix: str, name: str) -> str:
    return f"{prefix}{name.replace('.', '_').upper()}"


def _rename_in_file(values: dict[str, Any], names: Mapping[str, str]) -> Iterator[Mistake]:
    """Move values that have another name in ``values`` to our name."""
    for other, own in names.items():
        *place, key = own.split(".")
        places = [other.split("."), *([[*place, other]] if "." not in other else [])]  # also in the table of our key
        for *above, last in places:
            table = _table(values, above)
            if above and table == {}:
                del (_table(values, above[:-1]) or {})[above[-1]]  # an empty table has no effect under either name
            if not table or last not in table or isinstance(table[last], dict):
                continue  # the names are of values, never of tables
            value = table.pop(last)
            if above and not table:  # other keys of that table are refused as unknown
                del (_table(values, above[:-1]) or {})[above[-1]]
            target = values
            for part in place:
                target = target.setdefault(part, {}) if isinstance(target.get(part, {}), dict) else {}
            if key in target:
                yield Mistake(".".join((*above, last)), f"is {own} under another name; give one of them")
            else:
                target[key] = value


def _rename_variables(environ: Mapping[str, str], prefix: str, model: Any) -> _RenamedVariables:
    """The same for variables; ``prefix`` is the room's."""
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
    """The value a variable holds, as ours would hold it; None where the JSON does not name it."""
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
