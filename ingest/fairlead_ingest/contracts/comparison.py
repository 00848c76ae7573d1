"""Compares two versions of a contract: what the new one means for the table and for messages that fitted the old one.

Each route is compared with the route of the same name, and the columns outside routes with each other. Which messages
move from one route to another cannot be seen here; only trying real messages shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead_ingest.rows.contract import EVOLVE, EXACT, FREEZE, ROUND, SHARED, Contract, RowRoute
from fairlead_ingest.rows.rules import NO_RULE, ColumnRule

ADDED: Final = "added"
"""The table gains a column or accepts more; nothing is lost."""
REFUSED: Final = "refused"
"""The job would refuse to start on the table."""
REMOVED: Final = "removed"
"""The column is null in new rows."""
STRICTER: Final = "stricter"
"""Messages that fitted before may no longer fit."""
VERSION: Final = "version"
"""The version number does not reflect the change."""
BREAKING = (REFUSED, REMOVED, STRICTER, VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractChange:
    """One difference. ``route`` is empty if it affects all messages, ``column`` if it affects no single column."""

    kind: str
    what: str
    column: str = ""
    route: str = ""

    @property
    def is_breaking(self) -> bool:
        return self.kind in BREAKING


def changes(old: Contract, new: Contract) -> list[ContractChange]:
    """The changes from ``old`` to ``new``, empty if there are none."""
    found = [*_types(old, new), *_modes(old, new)]
    was, now = {each.name: number for number, each in enumerate(old.routes)}, [each.name for each in new.routes]
    found += _between(old, SHARED, new, SHARED, "")
    for number, name in enumerate(now):
        found += _between(old, was.get(name, SHARED), new, number, name)
        if name not in was:
            found.append(ContractChange(kind=ADDED, route=name, what="a new route"))
        elif _taken(old.routes[was[name]]) != _taken(new.routes[number]):
            found.append(ContractChange(kind=STRICTER, route=name, what="takes other messages than before"))
    for name in was:
        if name not in now:
            found += _between(old, was[name], new, SHARED, name)
            found.append(ContractChange(kind=STRICTER, route=name, what="was removed; other routes take its messages"))
    both = [name for name in was if name in now]
    if both != [name for name in now if name in was]:
        found.append(
            ContractChange(kind=STRICTER, what="routes are in another order; the first that matches takes a message")
        )
    found = list(dict.fromkeys(_without_repeats(found)))
    return [*_version(old, new, bool(found)), *found]


def _types(old: Contract, new: Contract) -> Iterator[ContractChange]:
    was = {each.name.lower(): each for each in old.columns.fields}
    for each in new.columns.fields:
        before = was.get(each.name.lower())
        if before is None:
            yield ContractChange(kind=ADDED, column=each.name, what=f"a new column, {each.dataType.simpleString()}")
        elif before.name != each.name:
            yield ContractChange(
                kind=REFUSED, column=each.name, what=f"was spelled {before.name}; a table cannot have both"
            )
        elif before.dataType != each.dataType:
            what = f"{before.dataType.simpleString()} becomes {each.dataType.simpleString()}; a type cannot change"
            yield ContractChange(kind=REFUSED, column=each.name, what=what)
    names = {each.name.lower() for each in new.columns.fields}
    for name, before in was.items():
        if name not in names:
            yield ContractChange(kind=REMOVED, column=before.name, what="is no longer read, and null in new rows")


def _modes(old: Contract, new: Contract) -> Iterator[ContractChange]:
    if old.mode != new.mode:
        what = f"mode {old.mode} becomes {new.mode}"
        if new.mode == FREEZE:
            yield ContractChange(kind=STRICTER, what=f"{what}: misfits become dead letters, not rows")
        elif old.mode == FREEZE:
            yield ContractChange(kind=ADDED, what=f"{what}: misfits become rows, with _rescued")
        elif old.mode == EVOLVE:
            yield ContractChange(kind=REMOVED, what=f"{what}: columns added automatically are null in new rows")
        else:
            yield ContractChange(kind=ADDED, what=f"{what}: fields without a column get one")
    if old.decimals != new.decimals:
        kind, what = (STRICTER, "no longer rounded") if old.decimals == ROUND else (ADDED, "rounded")
        assert EXACT in (old.decimals, new.decimals)
        yield ContractChange(kind=kind, what=f"decimals with too many places are {what}")


def _between(old: Contract, was: int, new: Contract, now: int, route: str) -> Iterator[ContractChange]:
    """Changes of the columns and rules for the messages of one route."""
    before, after = set(old.columns_of(was).names), new.columns_of(now).names
    table = {name.lower() for name in new.columns.names}
    for name in old.columns_of(was).names:
        if name not in after and name.lower() in table:
            yield ContractChange(kind=REMOVED, column=name, route=route, what="is null in new rows of this route")
    for name in after:
        rule = new.rules_of(now).get(name, NO_RULE)
        if name not in before:
            if rule.required:
                yield ContractChange(kind=STRICTER, column=name, route=route, what="is new and required")
            continue
        for kind, what in _rules(old.rules_of(was).get(name, NO_RULE), rule):
            yield ContractChange(kind=kind, column=name, route=route, what=what)


def _rules(old: ColumnRule, new: ColumnRule) -> Iterator[tuple[str, str]]:
    if old.required != new.required:
        yield (STRICTER, "is required now") if new.required else (ADDED, "is no longer required")
    if old.allowed != new.allowed:
        gone = [value for value in old.allowed if value not in new.allowed]
        if new.allowed and (gone or not old.allowed):
            listed = ", ".join(str(value) for value in gone[:5]) + (", …" if len(gone) > 5 else "")
            yield STRICTER, f"no longer allows {listed}" if gone else "allows only listed values"
        elif set(old.allowed) != set(new.allowed):
            yield ADDED, "allows more values"
    for name, was, now, sign in (("minimum", old.minimum, new.minimum, 1), ("maximum", old.maximum, new.maximum, -1)):
        if was != now:
            is_stricter = now is not None and (was is None or sign * now > sign * was)
            yield STRICTER if is_stricter else ADDED, f"{name} {_bound(was)} becomes {_bound(now)}"


def _bound(bound: float | None) -> str:
    return "none" if bound is None else str(bound)


def _taken(route: RowRoute) -> tuple[object, ...]:
    return route.source, route.topic, dict(route.properties)


def _version(old: Contract, new: Contract, is_changed: bool) -> Iterator[ContractChange]:
    if old.name != new.name:
        yield ContractChange(kind=VERSION, what=f"the name changes from {old.name or 'none'} to {new.name or 'none'}")
    elif new.name and new.version < old.version:
        yield ContractChange(kind=VERSION, what=f"version {new.version} is lower than the old one, {old.version}")
    elif new.name and is_changed and new.version == old.version:
        yield ContractChange(
            kind=VERSION, what=f"the version is still {new.version}; raise it, because commits record it"
        )


def _without_repeats(found: Sequence[ContractChange]) -> Iterator[ContractChange]:
    """Leave out changes of a route that are already listed for all messages."""
    said = {(each.kind, each.column, each.what) for each in found if not each.route}
    for each in found:
        if not each.route or (each.kind, each.column, each.what) not in said:
            yield each
