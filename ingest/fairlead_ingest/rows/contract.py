"""A contract: which typed columns are read from bodies, which values they may have, and what happens to other bodies.

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the typed columns and the body in ``_rescued``; ``evolve`` does the same, and fields that have no
column get one (``fitting``). ``decimals`` is ``exact`` (default: a number with more places than its column does not
fit) or ``round``.

A message belongs to the first route that takes it, by its source, its topic and its properties. A route that leaves
out, say, the topic takes messages of any; ``*`` stands for any characters, including none and ``/``. A message that no
route takes is judged by the columns that all messages share. Columns of a route are read from its messages alone and
are null in all others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from pyspark.sql import types

from fairlead_ingest.rows.fitting import MISFITS_MAX, Judge, UnfitColumn, Verdict
from fairlead_ingest.rows.rules import ColumnRule

# Sources are what devices write into messages; so many are remembered with their route.
REMEMBERED_MAX = 4_096
SHARED = -1
"""The number of no route."""
_PROPERTIES = msgspec.json.Decoder(dict[str, str | None])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoute:
    """``source``, ``topic``: empty for any; ``properties``: what each has to be; ``columns``: those it adds."""

    name: str
    source: str = ""
    topic: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    description: str = ""

    def takes(self, topic: str, source: str | None, properties: Mapping[str, str | None]) -> bool:
        """A message without a source has none that fits."""
        if self.topic and not matches(self.topic, topic):
            return False
        if self.source and (source is None or not matches(self.source, source)):
            return False
        return all(properties.get(name) == value for name, value in self.properties.items())


def matches(pattern: str, text: str) -> bool:
    """In time that grows with the text alone, whatever it holds."""
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
    """Finds the number of a message's route, ``SHARED`` where none takes it."""

    def __init__(self, routes: Sequence[RowRoute]) -> None:
        self._routes = routes
        self._looks_at_properties = any(route.properties for route in routes)
        self._remembered: dict[tuple[str, str | None], int] = {}

    def route(self, topic: str, source: str | None, properties: str | None) -> int:
        """``properties``: the JSON text of an object, as a row has it."""
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
    """Of properties some of which are no text: those that are."""
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
# How a dead letter's error begins whose body does not fit.
MISFIT = "body does not fit the schema"
# Names a typed column may not take: they are the row's own.
ENVELOPE_COLUMNS = (
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at",
    "properties", "system_properties", "body",
)  # fmt: skip
LINEAGE_COLUMNS = ("_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date")
OWN_COLUMNS = frozenset((*ENVELOPE_COLUMNS, *LINEAGE_COLUMNS, RESCUED))
# Between the columns of a misfit and the body it shows; JSON on one line has none of its own.
_END = "\n"
# What Spark alone could not read.
NOTHING_KNOWN = f"[]{_END}"
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG = msgspec.json.Decoder(list[UnfitColumn])


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """``columns``: all of them, those of routes too; ``rules``: of columns that all messages share.

    ``name`` and ``version`` are its author's: empty and 0 where the file says none.
    """

    columns: types.StructType
    mode: str = FREEZE
    decimals: str = EXACT
    name: str = ""
    version: int = 0
    description: str = ""
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    routes: tuple[RowRoute, ...] = ()
    # Columns that only messages of some route have.
    routed: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and version as people read them; empty for a file without."""
        return f"{self.name} version {self.version}" if self.name else ""

    def judge(self) -> BodyJudge:
        """Who looks at bodies before Spark does."""
        return BodyJudge(self)

    def columns_of(self, route: int) -> types.StructType:
        """Those that messages of this route have."""
        foreign = set(self.foreign_to(route))
        return types.StructType([each for each in self.columns.fields if each.name not in foreign])

    def foreign_to(self, route: int) -> tuple[str, ...]:
        """Those that only messages of other routes have."""
        own = set() if route == SHARED else set(self.routes[route].columns)
        return tuple(name for name in self.routed if name not in own)

    def rules_of(self, route: int) -> Mapping[str, ColumnRule]:
        """What is asked of messages of this route; its own word counts where both say something of a column."""
        return self.rules if route == SHARED else {**self.rules, **self.routes[route].rules}

    def encode(self) -> str:
        """As text, for the tasks; ``decode`` is its inverse."""
        plain = {"columns": self.columns.jsonValue(), "rules": self.rules, "routes": self.routes}
        rest = {name: getattr(self, name) for name in ("mode", "decimals", "name", "version", "description", "routed")}
        return msgspec.json.encode({**plain, **rest}).decode()


class BodyJudge:
    """Looks at the bodies of one contract's messages, each by the columns of its route."""

    def __init__(self, contract: Contract) -> None:
        self._router = RowRouter(contract.routes) if contract.routes else None
        self.is_routed = self._router is not None
        self._judges = {number: _judge_of(contract, number) for number in range(SHARED, len(contract.routes))}
        self.look = self._judges[SHARED].look

    def looks(
        self,
        topic: str,
        bodies: Sequence[bytes | None],
        sources: Sequence[str | None] = (),
        properties: Sequence[str | None] = (),
    ) -> list[Verdict | None]:
        """The verdict on each body, None where there is none; the last two are looked at where there are routes."""
        if self._router is None:
            look = self.look
            return [None if body is None else look(body) for body in bodies]
        return [
            None if body is None else self._judges[self._router.route(topic, source, given)].look(body)
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
    """What ``encode`` gave."""
    plain: dict[str, Any] = json.loads(text)
    columns = types.StructType.fromJson(plain.pop("columns"))
    rules = msgspec.convert(plain.pop("rules"), dict[str, ColumnRule])
    routes = msgspec.convert(plain.pop("routes"), tuple[RowRoute, ...])
    return Contract(columns=columns, rules=rules, routes=routes, routed=tuple(plain.pop("routed")), **plain)


def sentence(contract: Contract) -> str:
    """How the error of a body begins that does not fit; ``_END`` and what was wrong follow (``wrong_text``)."""
    return f"{MISFIT} {contract.title}".rstrip()


def wrong_text(verdict: Verdict) -> str:
    """What is wrong with a body, as it travels beside its row; ``misfit`` reads it."""
    return msgspec.json.encode(verdict.wrong).decode() + _END


def misfit(error: str, body: str | None, empty: Collection[str]) -> tuple[str, Sequence[str]] | None:
    """(sentence for people, columns) for the error of a body that did not fit; None for another error.

    ``empty``: typed columns that are null in the row, for a body that Spark alone could not read.
    """
    if not error.startswith(MISFIT):
        return None
    head, is_ours, shown = error.partition(_END)
    begin, bracket, rest = head.partition("[")
    try:
        wrong = _WRONG.decode((bracket + rest).encode()) if is_ours else []
    except msgspec.MsgspecError:
        return error, ()  # a transform's own sentence
    if not is_ours:
        return error, ()
    wrong = wrong or [UnfitColumn(name) for name in misfits(body, empty)[:MISFITS_MAX]]
    return misfit_text(begin.rstrip(), wrong, shown), [each.column for each in wrong]


def misfit_text(begin: str, wrong: Sequence[UnfitColumn], shown: str) -> str:
    """``begin`` at its columns, with reasons, and the body's first characters."""
    names = ", ".join(f"{each.column} ({each.reason})" if each.reason else each.column for each in wrong)
    return f"{begin} at {names}: {shown}" if names else f"{begin}: {shown}"


def misfits(body: str | None, empty: Collection[str]) -> list[str]:
    """Typed columns that are ``empty`` in a row although its body has a value for them."""
    try:
        fields = _FIELDS.decode(body) if body else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [name for name, value in fields.items() if name in empty and bytes(value) != b"null"]


def grown(contract: Contract, held: types.StructType) -> Contract:
    """The contract with the columns that a table has ``held`` beyond it and beside the row's own."""
    names = {name.lower() for name in (*contract.columns.names, *OWN_COLUMNS)}
    more = [each for each in held.fields if each.name.lower() not in names]
    return replace(contract, columns=types.StructType([*contract.columns.fields, *more]))
