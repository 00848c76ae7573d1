"""Tries a contract on messages, with the code the job itself uses.

page of messages ─▶ envelope.page, as in the job's source ─▶ counted: rows, dead letters, fields without a column
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from fairlead_ingest.contracts.guess import Guess
from fairlead_ingest.rows import envelope, letter_code
from fairlead_ingest.rows.contract import FREEZE, MISFIT, OWN_COLUMNS, SHARED, Contract, RowRouter, readable
from fairlead_ingest.rows.fitting import UnfitColumn

# How many kinds of violations and how many unknown fields are listed; devices choose their names, so they are bounded.
KINDS_MAX = 200
FIELDS_MAX = 500
# How many values of a field its type is guessed from.
GUESSED_MAX = 100
EXAMPLE_CHARS_MAX = 120
NO_OBJECT = "is not an object"
MISSING = "missing"

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG = msgspec.json.Decoder(list[UnfitColumn])


@dataclass(slots=True, kw_only=True)
class Violation:
    """One kind of mistake in messages. ``field`` is a column or a message field, empty if it is the whole message."""

    code: str
    field: str
    reason: str
    messages: int = 0
    example_id: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A field of bodies that has no column. ``type`` is a guess, None if no type holds all values or all are null."""

    name: str
    type: str | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The result: ``messages`` is the sum of ``fit``, ``rescued`` and ``dead_letters``."""

    messages: int
    fit: int
    rescued: int
    dead_letters: int
    wrong: Sequence[Violation]
    # Violations and unknown fields beyond the listed ones.
    untold: int
    unknown: Sequence[Unknown]
    # Number of messages by route, with ``""`` for messages of no route; empty if the contract has no routes.
    routes: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_fit(self) -> bool:
        return self.fit == self.messages


class Trial:
    """Tries a contract on pages of messages (``play``) and sums up the result (``outcome``)."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._judge = contract.judge()
        self._router = RowRouter(contract.routes)
        self._known = {*contract.columns.names, *OWN_COLUMNS}
        self._lower = {name.lower() for name in self._known}
        self._messages = self._rescued = self._dead = self._unlisted = 0
        self._wrong: dict[tuple[str, str, str], Violation] = {}
        self._unknown: dict[str, tuple[Guess, int]] = {}
        self._routes = [0] * (len(contract.routes) + 1)

    def play(self, topic: str, ids: pa.Array, moments: pa.Array, payloads: pa.Array) -> None:
        """Try the contract on one page of a topic."""
        page = envelope.page(topic, ids, moments, payloads, judge=self._judge)
        self._messages += page.num_rows
        for letter in dead_letters(page, self._contract):
            self._dead += 1
            if letter.wrong is None:
                shown = letter.error.encode() + b": " + letter.payload
                missing = _missing(letter)
                if missing:
                    self._note(letter.code, ", ".join(missing), MISSING, letter.id, shown)
                for name in [each for each in letter.fields if each not in missing] or ([] if missing else [""]):
                    self._note(letter.code, name, "", letter.id, shown)
            else:
                self._note_misfits(letter.id, letter.body, letter.wrong)
        if self._contract.mode != FREEZE:
            for letter in _misfits(page):
                self._rescued += 1
                self._note_misfits(letter.id, letter.body, letter.wrong or ())
        for body in page["body"].drop_null().to_pylist():
            self._collect_unknown_fields(body)
        if self._contract.routes:
            is_good = page["_error"].is_null().to_pylist()
            for good, source, properties in zip(
                is_good, page["source"].to_pylist(), page["properties"].to_pylist(), strict=True
            ):
                if good:
                    self._routes[self._router.route(topic, source, properties)] += 1

    def outcome(self) -> TrialOutcome:
        """The result for all pages so far, the most frequent violations and fields first."""
        names = [each.name for each in self._contract.routes]
        return TrialOutcome(
            messages=self._messages,
            fit=self._messages - self._rescued - self._dead,
            rescued=self._rescued,
            dead_letters=self._dead,
            wrong=sorted(self._wrong.values(), key=lambda kind: (-kind.messages, kind.code, kind.field, kind.reason)),
            untold=self._unlisted,
            unknown=sorted(
                (Unknown(name=name, type=guess.type(), messages=n) for name, (guess, n) in self._unknown.items()),
                key=lambda each: (-each.messages, each.name),
            ),
            routes={**dict(zip(names, self._routes, strict=False)), "": self._routes[SHARED]} if names else {},
        )

    def _note_misfits(self, name: str, body: str, wrong: Sequence[UnfitColumn]) -> None:
        for each in wrong or (UnfitColumn("", NO_OBJECT),):
            self._note(letter_code.MISFIT, each.column, each.reason, name, body)

    def _note(self, code: str, name: str, reason: str, message_id: str, shown: bytes | str) -> None:
        kind = self._wrong.get((code, name, reason))
        if kind is None:
            if len(self._wrong) >= KINDS_MAX:
                self._unlisted += 1
                return
            kind = self._wrong[code, name, reason] = Violation(code=code, field=name, reason=reason)
            kind.example_id, kind.example = message_id, _example(name, shown)
        kind.messages += 1

    def _collect_unknown_fields(self, body: str) -> None:
        if not body.startswith("{"):
            return
        try:
            fields = _FIELDS.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        for name in fields.keys() - self._known:
            if name.lower() in self._lower:
                continue
            guess, count = self._unknown.get(name, (None, 0))
            if guess is None:
                if len(self._unknown) >= FIELDS_MAX:
                    self._unlisted += 1
                    continue
                guess = Guess()
            if guess.count < GUESSED_MAX:
                guess.add(bytes(fields[name]))
            self._unknown[name] = guess, count + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that becomes a dead letter. ``wrong`` lists the columns that do not fit, None for other reasons."""

    id: str
    code: str
    fields: Sequence[str]
    error: str
    payload: bytes = b""
    body: str = ""
    wrong: Sequence[UnfitColumn] | None = None


def dead_letters(page: pa.RecordBatch, contract: Contract) -> Iterator[Letter]:
    """The dead letters of a page with the schema ``envelope.TYPED_PAGE_SCHEMA``."""
    rejected = page.filter(page["_error"].is_valid())
    for row in rejected.select(["_id", "_error", "_payload"]).to_pylist():
        found = letter_code.of(row["_payload"], None)
        yield Letter(id=row["_id"], code=found.code, fields=found.fields, error=row["_error"], payload=row["_payload"])
    if contract.mode == FREEZE:
        yield from _misfits(page)


def _misfits(page: pa.RecordBatch) -> Iterator[Letter]:
    misfit = page.filter(page[envelope.MISFIT].is_valid())
    for row in misfit.select(["_id", "body", envelope.MISFIT]).to_pylist():
        wrong = _WRONG.decode(row[envelope.MISFIT])
        fields = [each.column for each in wrong]
        yield Letter(id=row["_id"], code=letter_code.MISFIT, fields=fields, error=MISFIT, body=row["body"], wrong=wrong)


def _missing(letter: Letter) -> list[str]:
    """Fields that the message lacks; together they count as one violation."""
    if letter.code != letter_code.BAD_FIELD:
        return []
    try:
        there = _FIELDS.decode(letter.payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [name for name in letter.fields if name not in there]


def _example(name: str, shown: bytes | str) -> str:
    """The value of the field if there is one, else the beginning of the whole text."""
    text: Any = shown
    if isinstance(shown, str) and name:
        try:
            text = _FIELDS.decode(shown).get(name, b"")
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            text = shown
    if isinstance(text, str):
        text = text.encode(errors="replace")
    return readable(bytes(text)[: 6 * EXAMPLE_CHARS_MAX].decode(errors="backslashreplace"))[:EXAMPLE_CHARS_MAX]
