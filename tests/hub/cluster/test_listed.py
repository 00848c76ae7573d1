"""What has been listed, and whether it is certain what a node should hold."""

import pytest
from tests.support.hubs.live import CONFIG_MAP

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.listed import INPUTS, Listed
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.settings import NodeDelivery

KIND = CONFIG_MAP.group_kind


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    made.rules.set_node("edge-1", {})
    for name in INPUTS:
        assert made.listed.input_synced(name)
    return made


def add_rule(placement, version="v1"):
    resources = [{"apiVersion": version, "kind": "ConfigMap"}]
    placement.rules.set_rule(sync_rule.rule({"metadata": {"name": "r"}, "spec": {"resources": resources}}))


def test_every_input_is_waited_for(placement):
    """In the order of ``INPUTS``; a second list is no news."""
    listed = Listed(placement.rules)
    for name in INPUTS:
        assert listed.not_synced("edge-1") == f"{name} are not listed yet"
        assert listed.nodes is (name != "nodes")
        assert listed.input_synced(name) and not listed.input_synced(name)
    assert listed.not_synced("edge-1") == ""


def test_a_kind_is_waited_for_until_it_is_listed_or_cannot_be(placement):
    """A watch that broke is waited for again; a kind that is frozen is not."""
    listed = placement.listed
    add_rule(placement)
    assert listed.not_synced("edge-1") == "ConfigMap is not listed yet" and listed.not_synced("edge-9") == ""
    assert listed.kind_synced(KIND) and not listed.kind_synced(KIND)
    assert listed.not_synced("edge-1") == ""
    listed.kind_unsynced(KIND)
    assert listed.not_synced("edge-1") == "ConfigMap is not listed yet"
    assert listed.kind_frozen(KIND, "403 Forbidden") and not listed.kind_frozen(KIND, "403 Forbidden")
    assert listed.not_synced("edge-1") == "" and listed.frozen == {KIND: "403 Forbidden"}
    listed.kind_dropped(KIND)
    assert listed.frozen == {}


def test_what_a_list_changes_is_worth_a_look_at_the_rules_status(placement):
    """Of the rules that name the kind."""
    add_rule(placement)
    placement.rules.matches.take()
    placement.listed.kind_frozen(KIND, "403 Forbidden")
    assert placement.rules.matches.take() == {"r"}


def test_a_kind_that_is_served_at_no_version_is_not_waited_for(placement):
    """The rule's status says so, and what edges hold of it stays."""
    add_rule(placement, "v1beta1")
    assert "ConfigMap is not listed yet" in placement.listed.not_synced("edge-1")
    placement.rules.set_served(KIND, {"v1beta1": "no such thing"})
    assert placement.listed.not_synced("edge-1") == "" and placement.rules.is_unserved(KIND)
    placement.rules.drop_rule("r")
    assert placement.rules.unserved == {}
