"""Status of objects reported by nodes: which reports are accepted, and what is written to the API server.

    report ─judge─▶ the node holds the object, a rule allows it, same UID, within bounds ─apply─▶ API server
    rules ─rules_of_node─▶ sent to each node, so that it can answer programs while offline

A node's report is accepted only for objects that a rule with ``statusFromEdge`` placed on it.

The hub uses server-side apply of ``.status`` alone, with a field manager per node.  The request names UID and version,
so a status is never written to a recreated object, nor an older one over a newer one: every version is read while the
reporting session is the node's newest, and a write of an ended session or a deposed hub meets a version that has
changed.  One exception: an apply that changes nothing does not change the version, so a write whose answer was lost may
arrive after it.  No I/O; ``io.cluster.status_reports`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.rule_set import RuleSet
from fairlead_hub.cluster.sync_rule import Rule, RuleEntry
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest, resource

STARTING_RETRY_SECONDS = 2.0
_status: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class ReportAccepted(msgspec.Struct, frozen=True):
    """Write this status to this object."""

    live: LiveObject
    status: dict[str, Any]


class ReportRefused(msgspec.Struct, frozen=True):
    """``live`` is set if the object concerns the node; then an Event on the object reports it."""

    nack: message.Nack
    live: LiveObject | None = None


def judge(placement: Placement, node: str, report: message.Report, content: bytes) -> ReportAccepted | ReportRefused:
    """``not_synced`` is checked first: nothing is refused permanently because of what is not listed yet."""
    try:
        key = resource.parse(report.resource).key
    except Malformed as error:
        return _never(report, "malformed", str(error))
    if why := placement.listed.not_synced(node):
        return _later(report, "starting", why, STARTING_RETRY_SECONDS)
    live = placement.object_cache.get(key)
    if live is None:
        return _never(report, "not_found", f"{report.resource} does not exist, or no rule sends its kind")
    if placement.desired(node, live) is None:
        return _never(report, "not_placed", f"no rule sends {report.resource} to node {node}")
    if live.uid != report.uid:
        reason = f"{report.resource} was recreated: its UID is {live.uid}, the status is for {report.uid}"
        return _never(report, "uid_changed", reason)
    if not placement.takes_status(node, live):
        reason = f"no rule that sends {report.resource} to node {node} has statusFromEdge: true"
        return _never(report, "not_allowed", reason, live)
    if live.path != report.resource:
        return _never(report, "other_version", f"the hub knows it as {live.path}", live)
    try:
        text = codec.unpack(report.encoding, content, message.STATUS_BYTES_MAX)
        if codec.nesting(text) > codec.NESTING_MAX:
            raise Malformed(f"nested deeper than {codec.NESTING_MAX} levels")
        return ReportAccepted(live, peer_json.decode(_status, text))
    except FrameTooLarge as error:
        return _never(report, "too_large", str(error), live)
    except Malformed as error:
        return _never(report, "malformed", str(error), live)


def _never(report: message.Report, code: str, reason: str, live: LiveObject | None = None) -> ReportRefused:
    return ReportRefused(never(report, code, reason), live)


def never(report: message.Report, code: str, reason: str) -> message.Nack:
    """A permanent refusal: the same report would be refused again."""
    return message.Nack(parent_id=report.id, code=code, reason=reason[: message.REASON_CHARS_MAX], permanent=True)


def later(
    report: message.Report, code: str, reason: str, seconds: float | None, *, all_of_them: bool = False
) -> message.Nack:
    """A temporary refusal; ``all_of_them``: any other report would be refused too."""
    return message.Nack(
        parent_id=report.id, code=code, reason=reason[: message.REASON_CHARS_MAX], retry_after=seconds,
        scope="hub" if all_of_them else "stream",
    )  # fmt: skip


def _later(report: message.Report, code: str, reason: str, seconds: float) -> ReportRefused:
    return ReportRefused(later(report, code, reason, seconds))


CONTENT_TYPE = "application/apply-patch+yaml"
OTHER_NODES = '"fairlead-edge-'
NOT_TYPED = "failed to create typed patch object"
FIELDS_LISTED_MAX = 5


def body(live: LiveObject, version: str, status: dict[str, Any]) -> dict[str, Any]:
    """The body of the request."""
    metadata = {"name": live.resource.name, "uid": live.uid, "resourceVersion": version}
    if live.resource.namespace:
        metadata["namespace"] = live.resource.namespace
    return {
        "apiVersion": live.resource.api_version,
        "kind": live.kind.kind,
        "metadata": metadata,
        "status": status,
    }


def parameters(node: str, *, force: bool) -> dict[str, str]:
    """The query parameters of the request."""
    found = {"fieldManager": message.field_manager(node), "fieldValidation": "Strict"}
    return {**found, "force": "true"} if force else found


def may_force(force: message.Force, conflicts: Sequence[str]) -> bool:
    """A merge patch may overwrite what was written in the cluster, as it could there; but not another node's fields."""
    return force == "all" or (force == "cluster" and not any(OTHER_NODES in each for each in conflicts))


def is_of_another_type(status: int, text: str) -> bool:
    """The API server answers 500 to an apply with fields that are not in the kind's schema; retrying does not help."""
    return status == 500 and NOT_TYPED in text


def conflict_text(conflicts: Sequence[str]) -> str:
    """A message for people; ``conflicts`` as the API server words them."""
    told = "; ".join(conflicts[:FIELDS_LISTED_MAX]) + ("; …" if len(conflicts) > FIELDS_LISTED_MAX else "")
    return f"others own what was reported: {told}. Leave these fields out, or apply with force=true"


class RulesFrame(msgspec.Struct, frozen=True):
    """One frame, sent to any number of nodes."""

    header: message.StatusRules
    content: bytes


NOTHING = RulesFrame(message.StatusRules(), b"")
"""No status is accepted from the node; agents assume this until they receive other rules."""


class RulesOfNodes:
    """Built once for all nodes that the same rules select, until rules change."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._generation = -1
        self._allowing: list[str] = []
        self._made: dict[tuple[str, ...], RulesFrame] = {}

    def of(self, node: str) -> RulesFrame:
        """The frame for this node, under the current rules."""
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
        _rule_message(rule, entry)
        for allowed in (True, False)  # allowing entries first: the others only make a refusal name its rule
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


def _rule_message(rule: Rule, entry: RuleEntry) -> message.StatusRule:
    group, kind = entry.group_kind
    return message.StatusRule(
        rule=rule.name,
        group=group,
        kind=kind,
        namespaces=None if entry.namespaces is None else sorted(entry.namespaces),
        labels=[message.LabelTerm(each.key, each.operator, sorted(each.values)) for each in entry.labels.requirements],
        allowed=entry.status_from_edge,
    )
