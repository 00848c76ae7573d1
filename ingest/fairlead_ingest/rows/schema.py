"""A contract: which typed columns are read from bodies, what their values must be, and what becomes of what is not so.

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the typed columns and the body in ``_rescued``; ``evolve`` does the same, and fields that have no
column get one (``evolution``). ``decimals`` is ``exact`` (default: a number with more places than its column does not
fit) or ``round``. Columns of routes are read from the messages of their route alone and null in all others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from pyspark.sql import types

from fairlead_ingest.rows.fitting import MISFITS_MAX, Judge, UnfitColumn, Verdict
from fairlead_ingest.rows.routing import SHARED, RowRoute, RowRouter
from fairlead_ingest.rows.rules import ColumnRule

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


def decode(text: str) -> Contract:
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
    return told(begin.rstrip(), wrong, shown), [each.column for each in wrong]


def told(begin: str, wrong: Sequence[UnfitColumn], shown: str) -> str:
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
