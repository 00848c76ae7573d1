"""Rules and the nodes they select: what is in force, at which version, and what cannot be read."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, SECRET, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.rule_set import RuleMatches, RuleSet
from fairlead_hub.settings import NodeDelivery

ALL_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def placement():
    made = Placement(ObjectCache(), NodeDelivery())
    made.rules.set_node("edge-1", {"role": "shop"})
    made.rules.set_node("edge-2", {"role": "ship"})
    return made


def put(placement, one):
    placement.object_cache.put(one)
    return one


def read(name, generation=1, uid="u", status=None, **spec):
    body = {"metadata": {"name": name, "uid": uid, "generation": generation}, "spec": spec, "status": status or {}}
    try:
        return sync_rule.rule(body)
    except ValueError as error:
        return sync_rule.unreadable(body, str(error))


def test_a_rule_that_cannot_be_read_stays_in_force_as_it_was(placement):
    """Its last form wishes on, for old objects and new ones."""
    placement.rules.set_rule(read("r", resources=[ALL_MAPS], nodeSelector={"matchLabels": {"role": "shop"}}))
    one = put(placement, live(CONFIG_MAP, "a"))
    assert placement.rules.break_rule(read("r", 2, resources=[])) == {"edge-1"}
    assert "spec.resources" in placement.rules.broken["syncrules/r"]
    assert placement.nodes_for(one) == {"edge-1"} == placement.nodes_for(put(placement, live(CONFIG_MAP, "b")))
    assert placement.rules.unreadable_for("edge-1") == ["r"] and placement.rules.unreadable_for("edge-2") == []
    assert placement.rules.set_rule(read("r", 3, resources=[ALL_MAPS])) == {"edge-1", "edge-2"}
    assert placement.rules.broken == {} and placement.rules.unreadable_for("edge-1") == []


def test_the_last_readable_form_is_taken_from_the_rules_own_status(placement):
    """A hub that starts anew knows no more than what stands in the API."""
    kept = {"generation": 3, "spec": read("r", resources=[ALL_MAPS]).form}
    found = read("r", 4, resources=[], status={"observedGeneration": 3, "lastReadable": kept})
    assert placement.rules.break_rule(found) == {"edge-1", "edge-2"}
    assert placement.nodes_for(put(placement, live(CONFIG_MAP, "a"))) == {"edge-1", "edge-2"}
    assert placement.rules.readable["r"].generation == 3


def test_a_namesake_inherits_nothing(placement):
    """The rule was deleted and made anew, unreadable, while the watch was broken."""
    placement.rules.set_rule(read("r", resources=[ALL_MAPS]))
    assert placement.rules.break_rule(read("r", uid="other", resources=[])) == {"edge-1", "edge-2"}
    assert placement.nodes_for(put(placement, live(CONFIG_MAP, "a"))) == set()
    assert placement.rules.drop_rule("r") == frozenset() and placement.rules.broken == {}


def test_thousands_of_rules_are_indexed_once_not_once_for_each(monkeypatch):
    """A list brings them one by one; a hub that indexed all for each did not come up within minutes."""
    rules = RuleSet(RuleMatches(ObjectCache()))
    asked: list[str] = []
    is_served = RuleSet._is_served

    def counted(self, entry):
        asked.append(entry.kind)
        return is_served(self, entry)

    monkeypatch.setattr(RuleSet, "_is_served", counted)
    for number in range(2000):
        spec = {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}
        rules.set_rule(sync_rule.rule({"metadata": {"name": f"r-{number}"}, "spec": spec}))
    assert len(rules.named(("", "ConfigMap"))) == 2000
    assert rules.in_force(rules.readable["r-0"].entries[0])
    assert len(asked) <= 3 * 2000


def test_edge_routes_that_cannot_be_read_name_no_node_and_no_topic(placement):
    """Until they can be read again."""
    body = {"metadata": {"name": "main", "uid": "u"}, "spec": {"routes": {"a": {"route": "x", "topic": "d/t"}}}}
    rules = placement.rules
    rules.set_routes(sync_rule.routes(body))
    assert rules.topics_of("edge-1") == {"default/telemetry", "d/t"}
    rules.break_routes("main", "spec.routes: why")
    assert rules.topics_of("edge-1") == {"default/telemetry"} and rules.broken_names("edgeroutes") == ["main"]
    rules.drop_routes("main")
    assert rules.broken == {} and rules.routes == {}


def test_labels_of_what_is_deleted_are_kept_while_a_rule_cannot_be_read(placement):
    """They tell whether that rule selected it; when all rules can be read again nothing asks for them."""
    rules, one = placement.rules, live(CONFIG_MAP, "a", labels={"tier": "1"})
    rules.forget(one)
    assert rules.gone == {}
    rules.break_rule(read("r", resources=[]))
    rules.forget(one)
    assert rules.gone == {one.key: one.labels}
    rules.set_rule(read("r", 2, resources=[ALL_MAPS]))
    rules.forget(one)
    assert rules.gone == {}


SECRETS = {"apiVersion": "v1", "kind": "Secret"}


@pytest.fixture
def core() -> Core:
    return Core("edge-1").rule(CONFIG_MAPS)


def matches(core: Core) -> RuleMatches:
    return core.hub.placement.rules.matches


def test_a_count_follows_the_objects(core):
    """They come, change and go."""
    core.put("a")
    assert matches(core).count("r") == 1
    one = core.put("b")
    core.put("b", version="2", data={"n": "2"})
    core.put("s", SECRET)
    assert matches(core).count("r") == 2
    core.remove(one)
    core.hub.cluster.relist(CONFIG_MAP.group_kind, {}, core.now)
    assert matches(core).count("r") == 0


def test_a_count_follows_labels_and_the_rule(core):
    """What the rule selects changes on either side."""
    core.rule({**CONFIG_MAPS, "labelSelector": {"matchLabels": {"app": "till"}}}, SECRETS)
    core.put("a", metadata={"labels": {"app": "till"}})
    core.put("s", SECRET)
    assert matches(core).count("r") == 2
    core.put("a", version="2", metadata={"labels": {"app": "other"}})
    assert matches(core).count("r") == 1
    core.rule(CONFIG_MAPS)
    assert matches(core).count("r") == 1
    core.hub.cluster.drop_rule("r")
    assert matches(core).count("r") == 0


def test_an_object_two_entries_cover_counts_once(core):
    """For a rule it is one object."""
    core.rule(CONFIG_MAPS, {**CONFIG_MAPS, "namespaces": ["shop"]})
    core.put("a", namespace="shop")
    assert matches(core).count("r") == 1
    core.put("b", namespace="shop")
    assert matches(core).count("r") == 2


def test_a_version_that_is_not_served_selects_nothing(core):
    """And is counted again when it is served."""
    core.put("a")
    assert matches(core).count("r") == 1
    core.hub.cluster.kind_served(CONFIG_MAP.group_kind, {"v1": "answered 404"})
    assert matches(core).count("r") == 0
    core.hub.cluster.kind_served(CONFIG_MAP.group_kind, {"v1": ""})
    assert matches(core).count("r") == 1


def test_only_what_a_change_concerns_is_looked_at_again(core):
    """A node's heartbeat, the same content again, an object no rule selects: nothing."""
    one = core.put("a")
    matches(core).take()
    core.node("edge-1")
    core.put("a")
    core.put("s", SECRET)
    core.put("a", version="2", data={"n": "2"})
    assert matches(core).take() == set()
    core.remove(one)
    assert matches(core).take() == {"r"}
    core.node("edge-2")
    assert matches(core).take() == {"r"}
    core.hub.cluster.kind_frozen(CONFIG_MAP.group_kind, "answered 403")
    assert matches(core).take() == {"r"}
    core.hub.cluster.drop_node("edge-2", core.now)
    assert matches(core).take() == {"r"}


def test_objects_are_counted_once(core, monkeypatch):
    """Not each time it is asked for."""
    for number in range(50):
        core.put(f"c-{number}")
    assert matches(core).count("r") == 50
    monkeypatch.setattr(ObjectCache, "of_kind", lambda *_: pytest.fail("all objects were looked at"))
    core.put("one-more")
    assert matches(core).count("r") == 51
