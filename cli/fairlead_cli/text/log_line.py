"""A line of a program's log as people read it: time, level, who, event, what stands beside it.

{"ts": "2026-11-22T10:00:00.123456Z", "level": "info", "room": "hub", "event": "session_opened", "node": "edge-1"}
10:00:00.123  info     hub-0  session_opened  node=edge-1
"""

from __future__ import annotations

import json
from typing import Any

from fairlead_cli.text import printable

LEVELS = ("debug", "info", "warning", "error", "critical")
_AHEAD = ("ts", "level", "event")
_LEFT_OUT = ("room", "logger", "exception", "exc_info")
VALUE_CHARS_MAX = 500


def parse(line: str) -> dict[str, Any] | None:
    """None: it is no line of ours, but a trace or the word of another program."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def is_wanted(found: dict[str, Any] | None, *, node: str | None, events: frozenset[str], level: str | None) -> bool:
    """Lines that are not ours are wanted where nothing was asked for by what only ours have."""
    if found is None:
        return node is None and not events and level is None
    if node is not None and node not in (found.get("node"), found.get("edge")):
        return False
    if events and found["event"] not in events:
        return False
    said = str(found.get("level", "info"))
    return level is None or said not in LEVELS or LEVELS.index(said) >= LEVELS.index(level)


def text(found: dict[str, Any], who: str) -> str:
    """One line; a value of others in it is not obeyed by the terminal."""
    clock = str(found.get("ts", ""))[11:23]
    rest = [f"{name}={_value(value)}" for name, value in found.items() if name not in _AHEAD and name not in _LEFT_OUT]
    parts = [clock.ljust(12), str(found.get("level", "")).ljust(8), who, str(found["event"]), *rest]
    return printable.one_line("  ".join(parts[:4]) + "".join(f" {each}" for each in parts[4:]))


def _value(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(value)
    said = said if len(said) <= VALUE_CHARS_MAX else f"{said[:VALUE_CHARS_MAX]}…"
    return json.dumps(said) if " " in said or not said else said
