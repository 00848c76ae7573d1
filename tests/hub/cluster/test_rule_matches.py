"""How many objects each rule selects: counted once, then followed."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, SECRET

from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.rule_matches import RuleMatches

SECRETS = {"apiVersion": "v1", "kind": "Secret"}


@pytest.fixture
def core() -> Core:
    made = Core("edge-1")
    made.rule(CONFIG_MAPS)
    return made


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
