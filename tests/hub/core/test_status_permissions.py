"""Nodes hear of rules for statuses when they come and when these change, and only those that understand it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core, Edge

from fairlead_wire import message

ALLOWED = {**CONFIG_MAPS, "statusFromEdge": True}


def told(edge: Edge) -> list[str]:
    return [header.digest for header in edge.sent() if isinstance(header, message.StatusRules)]


@pytest.fixture
def core() -> Core:
    return Core("edge-1").rule(ALLOWED)


def test_a_node_is_told_what_it_does_not_hold(core: Core) -> None:
    [digest] = told(core.connect(status_rules=""))
    assert digest and told(core.connect(status_rules=digest)) == []
    assert told(core.connect(status_rules="older")) == [digest]


def test_an_older_agent_receives_no_rules(core: Core) -> None:
    assert told(core.connect()) == []


def test_a_change_of_rules_or_labels_is_told(core: Core) -> None:
    edge = core.connect(status_rules="")
    [first] = told(edge)
    core.rule(CONFIG_MAPS)
    assert told(edge) == [""]
    core.rule(ALLOWED, nodeSelector={"matchLabels": {"site": "1"}})
    assert told(edge) == []
    core.node("edge-1", site="1")
    core.settle()
    assert told(edge) == [first]
    core.hub.cluster.drop_rule("r")
    core.settle()
    assert told(edge) == [""]


def test_nothing_is_told_before_rules_are_listed() -> None:
    core = Core("edge-1", listed=False).rule(ALLOWED)
    edge = core.connect(status_rules="held")
    assert told(edge) == []
    core.list_all()
    assert len(told(edge)) == 1


def test_where_no_rule_allows_anything_no_frame_is_sent() -> None:
    core = Core("edge-1").rule(CONFIG_MAPS)
    edge = core.connect(status_rules="")
    assert told(edge) == []
    edge.leave()
    more: dict[str, Any] = {"status_rules": "from another time"}
    assert told(core.connect(**more)) == [""]
