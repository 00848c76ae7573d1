"""What nodes get to know of rules: those that send them something, and only where one of them allows status."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.reported.rules_of_node import NOTHING, RulesFrame, RulesOfNodes
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

ALLOWED = {**CONFIG_MAPS, "statusFromEdge": True}
SITE = {"matchLabels": {"site": "1"}}


def told(core: Core, node: str = "edge-1") -> list[message.StatusRule]:
    found = RulesOfNodes(core.hub.placement.rules).of(node)
    text = codec.unpack(found.header.encoding, found.content)
    assert found == NOTHING or found.header.digest == digest.content_digest(text)
    return msgspec.json.decode(text, type=list[message.StatusRule]) if text else []


def test_nothing_is_said_where_no_rule_allows_status() -> None:
    core = Core("edge-1")
    core.rule(CONFIG_MAPS)
    assert RulesOfNodes(core.hub.placement.rules).of("edge-1") == NOTHING


def test_the_entries_of_rules_that_select_the_node() -> None:
    core = Core("edge-1", "edge-2")
    core.node("edge-1", site="1")
    selector: dict[str, Any] = {"matchLabels": {"b": "2", "a": "1"}}
    core.rule({**ALLOWED, "namespaces": ["x", "a"], "labelSelector": selector}, name="one", nodeSelector=SITE)
    core.rule(CONFIG_MAPS, name="all")
    labels = [message.LabelTerm("a", "In", ["1"]), message.LabelTerm("b", "In", ["2"])]
    first = message.StatusRule(rule="one", kind="ConfigMap", namespaces=["a", "x"], labels=labels, allowed=True)
    assert told(core) == [first, message.StatusRule(rule="all", kind="ConfigMap")]
    assert told(core, "edge-2") == []


def test_the_same_frame_goes_to_all_nodes_of_the_same_rules() -> None:
    core = Core("edge-1", "edge-2")
    core.rule(ALLOWED)
    rules = RulesOfNodes(core.hub.placement.rules)
    first = rules.of("edge-1")
    assert rules.of("edge-2") is first
    core.rule(CONFIG_MAPS)
    assert isinstance(first, RulesFrame) and rules.of("edge-1") == NOTHING


def test_more_than_a_node_takes_is_cut_and_what_allows_stays() -> None:
    core = Core("edge-1")
    for number in range(5):
        core.rule(*[CONFIG_MAPS] * 256, name=f"a{number}")
    core.rule(ALLOWED, name="z")
    found = told(core)
    assert len(found) == message.STATUS_RULES_MAX and found[0].rule == "z"
    many = [f"{number:060}" for number in range(1024)]
    core.rule(*[{**ALLOWED, "namespaces": many}] * 40, name="z")
    assert len(msgspec.json.encode(told(core))) <= message.STATUS_RULES_BYTES_MAX
