"""Proposes a first contract from messages: types that hold every value seen, and routes where sources differ.

It is only a proposal: a day of messages does not show everything their author may send. All messages it was made from
fit it, except bodies that are not JSON objects and unreadable messages.
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

# With more sources than this, sources are devices rather than kinds of modules, and no routes are proposed.
SOURCES_MAX = 20
COLUMNS_MAX = 500
ERROR_CHARS_MAX = 200
EXAMPLE_CHARS_MAX = 40
# How many fields without a column are named in the comment.
LEFT_MAX = 20
# Characters with a meaning of their own in Spark or in a table format.
_NOT_IN_NAMES = frozenset('.`"\\,;{}=')
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class _Source:
    messages: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class Proposal:
    """Learns from pages of messages (``learn``), then writes a contract (``text``)."""

    def __init__(self) -> None:
        self._guesses: dict[str, Guess] = {}
        self._left: dict[str, None] = {}
        self._sources: dict[str | None, _Source] = {}
        self.messages = self.objects = self.unreadable = 0
        self.error = ""
        """Why the first unreadable message could not be read."""

    def learn(self, topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> None:
        """Take one page of a topic into account."""
        page = envelope.page(topic, ids, moments, payloads)
        self.messages += page.num_rows
        if refused := page["_error"].drop_null().to_pylist():
            self.unreadable += len(refused)
            self.error = self.error or refused[0][:ERROR_CHARS_MAX]
        for source, body in zip(page["source"].to_pylist(), page["body"].to_pylist(), strict=True):
            if body is not None and body.startswith("{"):
                self._learn(source, body)

    def text(self, name: str, about: str) -> str:
        """The contract as TOML; ``about`` is a one-line comment that says where it comes from."""
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
        """Why no contract can be proposed; empty if one can."""
        if self.objects:
            return ""
        if not self.messages:
            return "it has no committed messages"
        if self.unreadable < self.messages:
            return f"none of its {self.messages:,} messages has a JSON object as its body"
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
            source = None  # in a route's source, a star is a wildcard
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
        """Type by column name, without reserved names and names that differ only in case."""
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
        return [f"# Fields without a column (unusable or duplicate name, or no common type): {named}{more}"]

    def _split(self, columns: Mapping[str, str]) -> tuple[list[str], dict[str, list[str]]]:
        """The columns that all sources have, and the further columns of each source."""
        if len(self._sources) < 2 or len(self._sources) > SOURCES_MAX:
            return list(columns), {}
        shared = [name for name in columns if all(name in each.counts for each in self._sources.values())]
        routed: dict[str, list[str]] = {}
        for source, seen in self._sources.items():
            own = [name for name in columns if name in seen.counts and name not in shared]
            if source is None:
                shared += own  # no route can match messages without a source
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
            span = _span(guess)
            value = f"{{ type = {_quoted(columns[name])}{required} }}" if required else _quoted(columns[name])
            lines.append(f"{keys[name]:<{width}} = {value}{span}")
        return lines


def _span(guess: Guess) -> str:
    """A comment about the values: their range, or how many are not numbers if only some are."""
    if guess.low is None:
        return ""
    if not guess.other:
        return f"  # {guess.low} to {guess.high}"
    text = guess.other[: 4 * EXAMPLE_CHARS_MAX].decode(errors="replace")[:EXAMPLE_CHARS_MAX]
    example = "".join(sign if " " <= sign <= "~" else _escaped(sign) for sign in text)
    return f"  # {guess.numbers:,} of {guess.count:,} are numbers; others, for example, {example}"


def _route_name(source: str, taken: set[str]) -> str:
    """A name for the route, such as door-out for the source /messages/modules/door/outputs/out."""
    parts = [part for part in source.split("/") if part not in ("", "messages", "modules", "outputs")]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).strip("-._")[:100] or "route"
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    taken.add(found)
    return found


def _quoted(text: str) -> str:
    """A TOML basic string in ASCII, so that no control character reaches a terminal."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(sign: str) -> str:
    if ord(sign) > 0xFFFF:
        return f"\\U{ord(sign):08x}"  # TOML has no surrogate pairs
    return "\\u007f" if sign == "\x7f" else json.dumps(sign)[1:-1]


def _can_be_column(name: str) -> bool:
    """Also true for names that have to be quoted, as CSV headings often do."""
    is_short = 0 < len(name) <= contract_file.NAME_CHARS_MAX
    return is_short and name.isprintable() and name == name.strip() and name[0] != "_" and not _NOT_IN_NAMES & set(name)
