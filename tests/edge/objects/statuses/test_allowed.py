"""By which rules status may be reported, as the node knows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_edge.objects.statuses import allowed
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec
from fairlead_wire.objects import digest


def known(*rules: message.StatusRule) -> allowed.KnownStatusRules:
    content = msgspec.json.encode(rules)
    return allowed.read(content, digest.content_digest(content))


def rule(name: str = "shop", *, is_allowed: bool = True, **more: Any) -> message.StatusRule:
    return message.StatusRule(rule=name, kind="ConfigMap", allowed=is_allowed, **more)


def refusal(*rules: message.StatusRule, namespace: str = "shop", **labels: str) -> str:
    return allowed.refusal(known(*rules), "", "ConfigMap", namespace, labels)


def test_a_rule_that_covers_the_object_allows() -> None:
    assert refusal(rule()) == ""
    assert refusal(rule(namespaces=["shop"])) == ""
    assert refusal(rule(namespaces=["other"]))
    assert refusal(message.StatusRule(rule="a", group="apps", kind="ConfigMap", allowed=True))
    assert refusal(rule("a", is_allowed=False), rule("b")) == ""


@pytest.mark.parametrize(
    ("term", "labels", "fits"),
    [
        (message.LabelTerm("a", "In", ["1"]), {"a": "1"}, True),
        (message.LabelTerm("a", "In", ["1"]), {"a": "2"}, False),
        (message.LabelTerm("a", "In", ["1"]), {}, False),
        (message.LabelTerm("a", "NotIn", ["1"]), {}, True),
        (message.LabelTerm("a", "NotIn", ["1"]), {"a": "1"}, False),
        (message.LabelTerm("a", "Exists"), {"a": ""}, True),
        (message.LabelTerm("a", "Exists"), {}, False),
        (message.LabelTerm("a", "DoesNotExist"), {}, True),
        (message.LabelTerm("a", "DoesNotExist"), {"a": ""}, False),
    ],
)
def test_labels_are_read_as_kubernetes_reads_them(term: message.LabelTerm, labels: dict[str, str], fits: bool) -> None:
    assert (refusal(rule(labels=[term]), **labels) == "") is fits


def test_a_refusal_names_the_rule() -> None:
    assert "SyncRule shop sends it here without statusFromEdge: true" in refusal(rule(is_allowed=False))
    many = [rule(f"r{number}", is_allowed=False) for number in range(5)]
    assert "SyncRules r0, r1, r2, … send it here" in refusal(*many)
    assert "no SyncRule known here" in refusal()


def test_only_what_the_hub_said_is_believed() -> None:
    content = msgspec.json.encode([rule()])
    for wrong in (b"[]", b"nonsense"):
        with pytest.raises(Malformed):
            allowed.read(wrong, digest.content_digest(content))
    with pytest.raises(Malformed):
        allowed.read(b"{}", digest.content_digest(b"{}"))
    many = msgspec.json.encode([rule()] * (message.STATUS_RULES_MAX + 1))
    with pytest.raises(Malformed):
        allowed.read(many, digest.content_digest(many))
    assert allowed.read(b"", "") == allowed.KnownStatusRules()


def test_what_unpacks_to_too_much_is_refused() -> None:
    encoding, content = codec.pack(b" " * (message.STATUS_RULES_BYTES_MAX + 1))
    with pytest.raises(FrameTooLarge):
        allowed.unpacked(message.StatusRules(digest="d", encoding=encoding), content)


def test_kinds_are_reportable_where_a_rule_allows_some() -> None:
    assert allowed.any_of(known(rule()), "", "ConfigMap")
    assert not allowed.any_of(known(rule(is_allowed=False)), "", "ConfigMap")
