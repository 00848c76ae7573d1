"""A contract to begin with, from messages: types that hold every value seen, and routes where sources differ.

It is a proposal: what a day of messages shows is not what its author promises. Played against the same messages all of
them fit, but for those that are no object, or no message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from fairlead_ingest.contracts.guess import Guess
from fairlead_ingest.rows import contract, contract_file, envelope, fitting
from fairlead_ingest.rows.contract import EVOLVE, FREEZE

# More sources than this are devices rather than kinds of modules: they get no routes.
SOURCES_MAX = 20
COLUMNS_MAX = 500
ERROR_CHARS_MAX = 200
# Of those without a column, that are named.
LEFT_MAX = 20
# Signs that a format of tables, or Spark, takes for its own in a name.
_NOT_IN_NAMES = frozenset('.`"\\,;{}=')
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class _Source:
    messages: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class Proposal:
    """``learn`` from pages of messages, then ask for the ``text`` of a contract."""

    def __init__(self) -> None:
        self._guesses: dict[str, Guess] = {}
        self._left: dict[str, None] = {}
        self._sources: dict[str | None, _Source] = {}
        self.messages = self.objects = self.unreadable = 0
        self.error = ""
        """Why the first of those that are unreadable is no message."""

    def learn(self, topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> None:
        """From one page of a topic."""
        page = envelope.page(topic, ids, moments, payloads)
        self.messages += page.num_rows
        if refused := page["_error"].drop_null().to_pylist():
            self.unreadable += len(refused)
            self.error = self.error or refused[0][:ERROR_CHARS_MAX]
        for source, body in zip(page["source"].to_pylist(), page["body"].to_pylist(), strict=True):
            if body is not None and body.startswith("{"):
                self._learn(source, body)

    def text(self, name: str, about: str) -> str:
        """The contract as TOML; ``about``: one line that says where it comes from."""
        columns = self._columns()
        shared, routed = self._split(columns)
        lines = [
            f"# {about}",
            f"name    = {_quoted(name)}",
            "version = 1",
            f"mode    = {_quoted(FREEZE if columns else EVOLVE)}",
            *self._without_column(columns),
            "",
        ]
        lines += ["[columns]", *self._lines(shared, columns, self.objects, None)]
        taken: set[str] = set()
        for source, own in routed.items():
            lines += [
                "",
                "[[routes]]",
                f"name   = {_quoted(_route_name(source, taken))}",
                f"source = {_quoted(source)}",
            ]
            lines += ["", "[routes.columns]", *self._lines(own, columns, self._sources[source].messages, source)]
        return "\n".join(lines) + "\n"

    def nothing(self) -> str:
        """Why there is no contract to propose; empty where there is one."""
        if self.objects:
            return ""
        if not self.messages:
            return "it holds no committed messages"
        if self.unreadable < self.messages:
            return f"no body of its {self.messages:,} messages is a JSON object"
        return (
            f"none of its {self.messages:,} messages is a JSON object with id, node, epoch, stream, sequence and body;"
            f" the first: {self.error}"
        )

    def _learn(self, source: str | None, body: str) -> None:
        try:
            fields = _FIELDS.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        self.objects += 1
        is_new = source not in self._sources
        if not source or "*" in source or (is_new and len(self._sources) > SOURCES_MAX):
            source = None  # in a route a star stands for others, too
        seen = self._sources.setdefault(source, _Source())
        seen.messages += 1
        for name, value in fields.items():
            guess = self._guesses.get(name)
            if guess is None:
                if len(self._guesses) >= COLUMNS_MAX or not _can_be_column(name):
                    if len(self._left) <= COLUMNS_MAX:
                        self._left[name] = None
                    continue
                guess = self._guesses[name] = Guess()
            raw = bytes(value)
            guess.add(raw)
            if raw != b"null":
                seen.counts[name] = seen.counts.get(name, 0) + 1

    def _columns(self) -> dict[str, str]:
        """Name to type; names that a table cannot tell apart, or keeps for itself, stay in the body."""
        found: dict[str, str] = {}
        lower = set(contract.OWN_COLUMNS)
        for name, guess in self._guesses.items():
            data_type = guess.type()
            if data_type is not None and name.lower() not in lower:
                lower.add(name.lower())
                found[name] = data_type
        return found

    def _without_column(self, columns: Mapping[str, str]) -> list[str]:
        """A comment that names the fields that stay in the body."""
        left = [name for name in (*self._guesses, *self._left) if name not in columns]
        if not left:
            return []
        named = ", ".join(_quoted(name[: contract_file.NAME_CHARS_MAX]) for name in left[:LEFT_MAX])
        more = f" and {len(left) - LEFT_MAX} more" if len(left) > LEFT_MAX else ""
        return [
            f"# Fields without a column (a name that a table cannot have or has already, no one type): {named}{more}"
        ]

    def _split(self, columns: Mapping[str, str]) -> tuple[list[str], dict[str, list[str]]]:
        """Columns that all sources have, and by source those it has beyond them."""
        if len(self._sources) < 2 or len(self._sources) > SOURCES_MAX:
            return list(columns), {}
        shared = [name for name in columns if all(name in each.counts for each in self._sources.values())]
        routed: dict[str, list[str]] = {}
        for source, seen in self._sources.items():
            own = [name for name in columns if name in seen.counts and name not in shared]
            if source is None:
                shared += own  # no route takes what has no source
            else:
                routed[source] = own
        routed = {source: [name for name in own if name not in shared] for source, own in routed.items()}
        return [name for name in columns if name in shared], {source: own for source, own in routed.items() if own}

    def _lines(self, names: Sequence[str], columns: Mapping[str, str], messages: int, source: str | None) -> list[str]:
        lines = []
        keys = {name: name if fitting.NAME.fullmatch(name) else _quoted(name) for name in names}
        width = max(map(len, keys.values()), default=0)
        for name in names:
            guess = self._guesses[name]
            counts = [each.counts.get(name, 0) for key, each in self._sources.items() if source in (None, key)]
            required = ", required = true" if sum(counts) == messages else ""
            span = "" if guess.low is None else f"  # {guess.low} to {guess.high}"
            value = f"{{ type = {_quoted(columns[name])}{required} }}" if required else _quoted(columns[name])
            lines.append(f"{keys[name]:<{width}} = {value}{span}")
        return lines


def _route_name(source: str, taken: set[str]) -> str:
    """Of a source such as /messages/modules/door/outputs/out: door-out."""
    parts = [part for part in source.split("/") if part not in ("", "messages", "modules", "outputs")]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).strip("-._")[:100] or "route"
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    taken.add(found)
    return found


def _quoted(text: str) -> str:
    """A basic string of TOML, in ASCII: no reader sees a character that it would obey."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(sign: str) -> str:
    if ord(sign) > 0xFFFF:
        return f"\\U{ord(sign):08x}"  # TOML knows no pairs of surrogates
    return "\\u007f" if sign == "\x7f" else json.dumps(sign)[1:-1]


def _can_be_column(name: str) -> bool:
    """Also one that has to be quoted, as headings of a CSV often have."""
    is_short = 0 < len(name) <= contract_file.NAME_CHARS_MAX
    return is_short and name.isprintable() and name == name.strip() and name[0] != "_" and not _NOT_IN_NAMES & set(name)
