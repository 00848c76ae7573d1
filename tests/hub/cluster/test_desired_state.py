"""What a session asks of the cluster, answered as it is now."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.cluster.content import ServedKind


@pytest.fixture
def core():
    return Core("edge-1").rule(CONFIG_MAPS)


def test_wishes_follow_the_cluster(core):
    """Wanted as soon as it is there, by the key and in the whole; nothing for a node that is not known."""
    one = core.put("a")
    view = core.hub.desired_state
    assert view.live("edge-1", one.key) is one and view.desired_objects("edge-1") == {one.key: one}
    assert view.desired("edge-9", one.key) is None and view.desired_objects("edge-9") == {}
    core.remove(one)
    assert view.desired("edge-1", one.key) is None and view.live("edge-1", one.key) is None


def test_a_kind_of_another_group_with_the_same_plural_is_another_kind(core):
    """Its type carries the group."""
    core.hub.cluster.know_kind(ServedKind(group="shop.io", version="v1", kind="Pod", plural="pods", namespaced=True))
    assert {"pods", "pods.shop.io"} <= core.hub.desired_state.kinds.keys()


def test_what_discovery_never_found_is_doubted_with_any_frozen_kind_of_its_group(core):
    """It may be the one that cannot be listed: nothing of it is deleted."""
    view, till = core.hub.desired_state, "apis/shop.io/v1/namespaces/shop/tills/a"
    assert view.deletion_blocked("edge-1", till) == ""
    core.rule({"apiVersion": "shop.io/v1", "kind": "Till"}, name="tills")
    core.hub.cluster.kind_frozen(("shop.io", "Till"), "forbidden")
    assert "Till cannot be listed: forbidden" in view.deletion_blocked("edge-1", till)
    assert view.deletion_blocked("edge-1", "api/v1/namespaces/shop/configmaps/a") == ""
