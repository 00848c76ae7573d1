"""Settings under the names that other programs give them: keys of a file, and variables, moved to ours.

    {"checkEntireQueueOnCleanup": true}           ─in_file────▶ {"cleanup": {"check_entire_queue_on_cleanup": true}}
    storeAndForwardConfiguration='{"timeToLive…'  ─variables──▶ FAIRLEAD_EDGE_STORE_DEFAULT_TTL_SECONDS=…

A model says which in ``OTHER_NAMES``, a mapping of paths.  A variable has the first part of the other name, in any
case, with the room's prefix or without; of a longer path it holds JSON.  Both names at once are a mistake: one of the
two values would not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fairlead_wire.validation.mistakes import Mistake

VARIABLE_CHARS_MAX = 4096


class RenamedVariables(NamedTuple):
    """``environ`` with our names alone; ``called``: our variable → the one that stood there; what is wrong."""

    environ: dict[str, str]
    called: dict[str, str]
    mistakes: list[tuple[str, Mistake]]
    """With the variable it is about."""


def of(model: Any) -> Mapping[str, str]:
    """Other name → ours, both as paths with dots."""
    found: Mapping[str, str] = getattr(model, "OTHER_NAMES", {})
    return found


def _variable(prefix: str, name: str) -> str:
    return f"{prefix}{name.replace('.', '_').upper()}"


def in_file(values: dict[str, Any], names: Mapping[str, str]) -> Iterator[Mistake]:
    """Move what stands in ``values`` under another name to ours."""
    for other, own in names.items():
        *place, key = own.split(".")
        places = [other.split("."), *([[*place, other]] if "." not in other else [])]  # also in the table of our key
        for *above, last in places:
            table = _table(values, above)
            if above and table == {}:
                del (_table(values, above[:-1]) or {})[above[-1]]  # it says nothing, under either name
            if not table or last not in table or isinstance(table[last], dict):
                continue  # a table is none of the names, which are of values
            value = table.pop(last)
            if above and not table:  # what else stands in another program's table is refused as unknown
                del (_table(values, above[:-1]) or {})[above[-1]]
            target = values
            for part in place:
                target = target.setdefault(part, {}) if isinstance(target.get(part, {}), dict) else {}
            if key in target:
                yield Mistake(".".join((*above, last)), f"is {own} under another name; give one of them")
            else:
                target[key] = value


def variables(environ: Mapping[str, str], prefix: str, model: Any) -> RenamedVariables:
    """The same for variables; ``prefix`` is the room's."""
    moved = RenamedVariables(dict(environ), {}, [])
    for other, own in of(model).items():
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
