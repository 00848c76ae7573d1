"""What a node gets to know of SyncRules, so that it can answer programs offline: of which objects status is taken."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_hub.cluster.rule_set import RuleSet
from fairlead_hub.cluster.sync_rule import Rule, RuleEntry
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest


class RulesFrame(msgspec.Struct, frozen=True):
    """One frame; sent to any number of nodes."""

    header: message.StatusRules
    content: bytes


NOTHING = RulesFrame(message.StatusRules(), b"")
"""No status is taken from the node; agents hold this until they are told otherwise."""


class RulesOfNodes:
    """Made once for all nodes that the same rules select, until rules change."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._generation = -1
        self._allowing: list[str] = []
        self._made: dict[tuple[str, ...], RulesFrame] = {}

    def of(self, node: str) -> RulesFrame:
        """For this node, as rules are now."""
        if self._generation != self._rules.generation:
            self._generation = self._rules.generation
            self._made.clear()
            self._allowing = [
                name
                for name, rule in self._rules.readable.items()
                if any(entry.status_from_edge for entry in rule.entries)
            ]
        if not any(node in self._rules.members[name] for name in self._allowing):
            return NOTHING
        names = tuple(sorted(name for name, members in self._rules.members.items() if node in members))
        found = self._made.get(names)
        if found is None:
            found = self._made[names] = _made([self._rules.readable[name] for name in names], self._rules)
        return found


def _made(rules: list[Rule], known: RuleSet) -> RulesFrame:
    entries = [
        _told(rule, entry)
        for allowed in (True, False)  # what allows goes first: the others only make a refusal name its rule
        for rule, entry in _in_force(rules, known)
        if entry.status_from_edge is allowed
    ][: message.STATUS_RULES_MAX]
    while len(content := msgspec.json.encode(entries)) > message.STATUS_RULES_BYTES_MAX:
        entries = entries[: len(entries) // 2]
    if not any(each.allowed for each in entries):
        return NOTHING
    encoding, packed = codec.pack(content)
    return RulesFrame(message.StatusRules(digest=digest.content_digest(content), encoding=encoding), packed)


def _in_force(rules: list[Rule], known: RuleSet) -> Iterator[tuple[Rule, RuleEntry]]:
    for rule in rules:
        for entry in rule.entries:
            if known.in_force(entry):
                yield rule, entry


def _told(rule: Rule, entry: RuleEntry) -> message.StatusRule:
    group, kind = entry.group_kind
    return message.StatusRule(
        rule=rule.name,
        group=group,
        kind=kind,
        namespaces=None if entry.namespaces is None else sorted(entry.namespaces),
        labels=[message.LabelTerm(each.key, each.operator, sorted(each.values)) for each in entry.labels.requirements],
        allowed=entry.status_from_edge,
    )
