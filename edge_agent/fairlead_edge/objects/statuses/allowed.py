"""Which status may be reported from here, by the rules the hub told last; they are kept on disk, so also offline.

What a rule selects by Pods (``bound``, ``referenced``) is not judged here: the hub judges each report again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest

RULES_NAMED_MAX: Final = 3
_decoder = msgspec.json.Decoder(list[message.StatusRule])

Rules = tuple[message.StatusRule, ...]


class KnownStatusRules(msgspec.Struct, frozen=True):
    """The rules as the hub told them, and their digest."""

    digest: str = ""
    rules: Rules = ()


def read(content: bytes, announced: str) -> KnownStatusRules:
    """Raises ``Malformed``."""
    if not announced:
        return KnownStatusRules()
    if digest.content_digest(content) != announced:
        raise Malformed("the rules of statuses do not match their digest")
    rules = peer_json.decode(_decoder, content)
    if len(rules) > message.STATUS_RULES_MAX:
        raise Malformed(f"{len(rules)} rules of statuses, at most {message.STATUS_RULES_MAX} are taken")
    return KnownStatusRules(announced, tuple(rules))


def unpacked(header: message.StatusRules, content: bytes) -> bytes:
    """Raises ``Malformed``, ``FrameTooLarge``."""
    return codec.unpack(header.encoding, content, message.STATUS_RULES_BYTES_MAX)


def refusal(known: KnownStatusRules, group: str, kind: str, namespace: str, labels: Mapping[str, str]) -> str:
    """Why status of this object may not come from here; empty when it may."""
    covering = [each for each in known.rules if _covers(each, group, kind, namespace, labels)]
    if any(each.allowed for each in covering):
        return ""
    if covering:
        named = list(dict.fromkeys(each.rule for each in covering))
        more = ", …" if len(named) > RULES_NAMED_MAX else ""
        those = ", ".join(named[:RULES_NAMED_MAX]) + more
        which = f"SyncRule {those} sends it here" if len(named) == 1 else f"SyncRules {those} send it here"
        return f"{which} without statusFromEdge: true in the entry for {kind}"
    shown = f"{kind}.{group}" if group else kind
    return f"no SyncRule known here has statusFromEdge: true in a resources entry for {shown} that selects it"


def any_of(known: KnownStatusRules, group: str, kind: str) -> bool:
    """May some objects of this kind have their status from here?"""
    return any(each.allowed and (each.group, each.kind) == (group, kind) for each in known.rules)


def _covers(rule: message.StatusRule, group: str, kind: str, namespace: str, labels: Mapping[str, str]) -> bool:
    if (rule.group, rule.kind) != (group, kind):
        return False
    if rule.namespaces is not None and namespace not in rule.namespaces:
        return False
    return all(_holds(term, labels) for term in rule.labels)


def _holds(term: message.LabelTerm, labels: Mapping[str, str]) -> bool:
    match term.operator:
        case "In":
            return labels.get(term.key) in term.values
        case "NotIn":
            return term.key not in labels or labels[term.key] not in term.values
        case "Exists":
            return term.key in labels
        case "DoesNotExist":
            return term.key not in labels
