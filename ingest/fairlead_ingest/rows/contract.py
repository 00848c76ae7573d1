"""A contract: the typed columns read from bodies, the values they may have, and what happens to other bodies.

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the columns that do not fit and the body in ``_rescued``; ``evolve`` does the same and adds
columns for unknown fields (``fitting``). ``decimals`` is ``exact`` (default: a number with more decimal places than its
column does not fit) or ``round``.

A message belongs to the first route that matches its source, topic and properties. A route without a topic, for
example, matches any topic; ``*`` matches any characters, including none and ``/``. A message that no route matches is
judged by the shared columns. Columns of a route are read only from its messages and are null in all others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from pyspark.sql import types

from fairlead_ingest.rows.fitting import MISFITS_MAX, Judge, UnfitColumn, Verdict
from fairlead_ingest.rows.rules import ColumnRule

# How many sources are cached with their route; devices choose them, so the number is limited.
REMEMBERED_MAX = 4_096
SHARED = -1
"""Stands for messages that no route matches."""
_PROPERTIES = msgspec.json.Decoder(dict[str, str | None])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoute:
    """A route. Empty ``source`` or ``topic`` match any; ``properties`` must be equal; ``columns`` are added ones."""

    name: str
    source: str = ""
    topic: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    description: str = ""

    def takes(self, topic: str, source: str | None, properties: Mapping[str, str | None]) -> bool:
        """Whether the route matches; a message without a source never matches a route that has one."""
        if self.topic and not matches(self.topic, topic):
            return False
        if self.source and (source is None or not matches(self.source, source)):
            return False
        return all(properties.get(name) == value for name, value in self.properties.items())


def matches(pattern: str, text: str) -> bool:
    """Whether ``text`` matches ``pattern``, in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


class RowRouter:
    """Finds the number of a message's route, ``SHARED`` if no route matches."""

    def __init__(self, routes: Sequence[RowRoute]) -> None:
        self._routes = routes
        self._looks_at_properties = any(route.properties for route in routes)
        self._remembered: dict[tuple[str, str | None], int] = {}

    def route(self, topic: str, source: str | None, properties: str | None) -> int:
        """The number of the route; ``properties`` is a JSON object as text."""
        if self._looks_at_properties:
            return self._find(topic, source, _read(properties))
        known = self._remembered.get((topic, source))
        if known is None:
            known = self._find(topic, source, {})
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[topic, source] = known
        return known

    def _find(self, topic: str, source: str | None, properties: Mapping[str, str | None]) -> int:
        for number, route in enumerate(self._routes):
            if route.takes(topic, source, properties):
                return number
        return SHARED


def _read(properties: str | None) -> Mapping[str, str | None]:
    if properties is None:
        return {}
    try:
        return _PROPERTIES.decode(properties)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _texts(properties)


def _texts(properties: str) -> Mapping[str, str | None]:
    """The properties that are texts, if some are not."""
    try:
        values = msgspec.json.decode(properties, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    found: dict[str, str | None] = {}
    for name, value in values.items():
        try:
            found[name] = msgspec.json.decode(value, type=str)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
    return found


FREEZE, RESCUE, EVOLVE = MODES = ("freeze", "rescue", "evolve")
EXACT, ROUND = DECIMALS = ("exact", "round")
RESCUED = "_rescued"
# The beginning of the error of a dead letter whose body does not fit.
MISFIT = "body does not fit the contract"
# The row's own columns, whose names typed columns must not use.
ENVELOPE_COLUMNS = (
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at",
    "properties", "system_properties", "body",
)  # fmt: skip
LINEAGE_COLUMNS = ("_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date")
OWN_COLUMNS = frozenset((*ENVELOPE_COLUMNS, *LINEAGE_COLUMNS, RESCUED))
# Separates the columns of a misfit from the body that is shown; one line of JSON does not contain it.
_END = "\n"
# Escapes of JSON: of a letter, a pair of surrogates for one letter, or another one.
_ESCAPES = re.compile(r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4})|\\.")
# For a body that only Spark could not read.
NOTHING_KNOWN = f"[]{_END}"
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG = msgspec.json.Decoder(list[UnfitColumn])


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract. ``columns`` includes those of routes; ``rules`` are those of shared columns.

    ``name`` and ``version`` come from the file; empty and 0 if it has none.
    """

    columns: types.StructType
    mode: str = FREEZE
    decimals: str = EXACT
    name: str = ""
    version: int = 0
    description: str = ""
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    routes: tuple[RowRoute, ...] = ()
    # Columns that only messages of some routes have.
    routed: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and version as text; empty if it has no name."""
        return f"{self.name} version {self.version}" if self.name else ""

    def judge(self) -> BodyJudge:
        """The judge that checks bodies before Spark reads them."""
        return BodyJudge(self)

    def columns_of(self, route: int) -> types.StructType:
        """The columns of messages of this route."""
        foreign = set(self.foreign_to(route))
        return types.StructType([each for each in self.columns.fields if each.name not in foreign])

    def foreign_to(self, route: int) -> tuple[str, ...]:
        """The columns that only messages of other routes have."""
        own = set() if route == SHARED else set(self.routes[route].columns)
        return tuple(name for name in self.routed if name not in own)

    def rules_of(self, route: int) -> Mapping[str, ColumnRule]:
        """The rules for messages of this route, which override shared rules of the same column."""
        return self.rules if route == SHARED else {**self.rules, **self.routes[route].rules}

    def encode(self) -> str:
        """The contract as text for the tasks; ``decode_contract`` is the inverse."""
        plain = {"columns": self.columns.jsonValue(), "rules": self.rules, "routes": self.routes}
        rest = {name: getattr(self, name) for name in ("mode", "decimals", "name", "version", "description", "routed")}
        return msgspec.json.encode({**plain, **rest}).decode()


class BodyJudge:
    """Judges bodies by a contract, each with the columns of its route."""

    def __init__(self, contract: Contract) -> None:
        self._router = RowRouter(contract.routes) if contract.routes else None
        self.is_routed = self._router is not None
        self._judges = {number: _judge_of(contract, number) for number in range(SHARED, len(contract.routes))}
        self.judge = self._judges[SHARED].judge

    def verdicts(
        self,
        topic: str,
        bodies: Sequence[bytes | None],
        sources: Sequence[str | None] = (),
        properties: Sequence[str | None] = (),
    ) -> list[Verdict | None]:
        """The verdict on each body, None for no body; sources and properties are used only if there are routes."""
        if self._router is None:
            judge = self.judge
            return [None if body is None else judge(body) for body in bodies]
        return [
            None if body is None else self._judges[self._router.route(topic, source, given)].judge(body)
            for body, source, given in zip(bodies, sources, properties, strict=True)
        ]


def _judge_of(contract: Contract, route: int) -> Judge:
    return Judge(
        contract.columns_of(route),
        rounds=contract.decimals == ROUND,
        evolves=contract.mode == EVOLVE,
        rules=contract.rules_of(route),
        foreign=contract.foreign_to(route),
    )


def decode_contract(text: str) -> Contract:
    """The inverse of ``Contract.encode``."""
    plain: dict[str, Any] = json.loads(text)
    columns = types.StructType.fromJson(plain.pop("columns"))
    rules = msgspec.convert(plain.pop("rules"), dict[str, ColumnRule])
    routes = msgspec.convert(plain.pop("routes"), tuple[RowRoute, ...])
    return Contract(columns=columns, rules=rules, routes=routes, routed=tuple(plain.pop("routed")), **plain)


def sentence(contract: Contract) -> str:
    """The beginning of the error of a misfit; its columns (``wrong_text``) follow."""
    return f"{MISFIT} {contract.title}".rstrip()


def wrong_text(verdict: Verdict) -> str:
    """The columns that a body does not fit, as text beside its row; ``misfit`` parses it."""
    return msgspec.json.encode(verdict.wrong).decode() + _END


def misfit(error: str, body: str | None, empty: Collection[str]) -> tuple[str, Sequence[str]] | None:
    """The sentence and columns for the error of a misfit; None for other errors.

    ``empty`` are the typed columns that are null in the row, for a body that only Spark could not read.
    """
    if not error.startswith(MISFIT):
        return None
    head, is_ours, shown = error.partition(_END)
    begin, bracket, rest = head.partition("[")
    try:
        wrong = _WRONG.decode((bracket + rest).encode()) if is_ours else []
    except msgspec.MsgspecError:
        return error, ()  # a transform changed the error
    if not is_ours:
        return error, ()
    wrong = wrong or [UnfitColumn(name) for name in misfits(body, empty)[:MISFITS_MAX]]
    return misfit_text(begin.rstrip(), wrong, shown), [each.column for each in wrong]


def misfit_text(begin: str, wrong: Sequence[UnfitColumn], shown: str) -> str:
    """The sentence: ``begin``, the columns with reasons, and the beginning of the body."""
    names = ", ".join(f'"{each.column}" ({each.reason})' if each.reason else f'"{each.column}"' for each in wrong)
    return f"{begin} at {names}: {readable(shown)}" if names else f"{begin}: {readable(shown)}"


def readable(shown: str) -> str:
    """A part of a JSON text with the letters that its sender escaped, ``\\u5317``, in place of the escapes."""
    return _ESCAPES.sub(_letter, shown)


def _letter(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]  # an escaped backslash, or another escape
    letter = found[1].encode().decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return letter if letter.isprintable() and not letter.isascii() and "\ufffd" not in letter else found[0]


def misfits(body: str | None, empty: Collection[str]) -> list[str]:
    """The typed columns that are ``empty`` in a row although its body has values for them."""
    try:
        fields = _FIELDS.decode(body) if body else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [name for name, value in fields.items() if name in empty and bytes(value) != b"null"]


def grown(contract: Contract, held: types.StructType) -> Contract:
    """The contract with the further columns of a table, ``held``, except the row's own."""
    names = {name.lower() for name in (*contract.columns.names, *OWN_COLUMNS)}
    more = [each for each in held.fields if each.name.lower() not in names]
    return replace(contract, columns=types.StructType([*contract.columns.fields, *more]))
