"""SyncRule and EdgeRoutes as the hub reads them."""

import pytest
from tests.support.live import CONFIG_MAP, live

from fairlead_hub import rules


def rule(**spec):
    return rules.rule({"metadata": {"name": "r", "generation": 3}, "spec": spec})


def test_defaults():
    """All nodes, all namespaces, all objects, the middle priority."""
    [entry] = rule(resources=[{"apiVersion": "apps/v1", "kind": "Deployment"}]).entries
    assert entry.group_kind == ("apps", "Deployment")
    assert (entry.select, entry.namespaces, entry.delivery, entry.priority) == ("all", None, None, 5)


def test_an_entry_wins_over_its_rule():
    """Delivery and priority of the entry count; what it leaves out comes from the rule."""
    found = rule(
        priority=2,
        delivery={"retries_max": 1},
        resources=[
            {"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "v1", "kind": "Secret", "priority": 0, "delivery": {"retries_max": 3}},
        ],
    )
    first, second = found.entries
    assert (first.priority, first.delivery.retries_max) == (2, 1)
    assert (second.priority, second.delivery.retries_max) == (0, 3)
    assert first.delivery.backoff_retries == 5, "what the rule leaves out keeps the hub's default"


def test_namespaces_and_labels_must_both_fit():
    """An object is covered when both say so."""
    [entry] = rule(
        resources=[{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["shop"],
                    "labelSelector": {"matchLabels": {"a": "b"}}}]
    ).entries  # fmt: skip
    assert entry.covers(live(CONFIG_MAP, "x", metadata={"labels": {"a": "b"}}))
    assert not entry.covers(live(CONFIG_MAP, "x"))
    assert not entry.covers(live(CONFIG_MAP, "x", namespace="other", metadata={"labels": {"a": "b"}}))


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({}, "spec.resources"),
        ({"resources": []}, "spec.resources"),
        ({"resources": ["x"]}, r"spec.resources\[0\]"),
        ({"resources": [{"kind": "Pod"}]}, r"spec.resources\[0\].apiVersion"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod", "select": "some"}]}, "select"),
        ({"resources": [{"apiVersion": "v1", "kind": "Secret", "select": "bound"}]}, "only Pods are bound"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod", "priority": 10}]}, "priority"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod", "priority": True}]}, "priority"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod", "namespaces": "shop"}]}, "namespaces"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod"}], "delivery": {"minimum_delay": -1}}, "spec.delivery"),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod"}], "nodeSelector": {"a": "b"}}, "spec.nodeSelector"),
    ],
)
def test_nonsense_names_its_field(spec, where):
    """What the schema lets through is refused here, with the field and the reason."""
    with pytest.raises(ValueError, match=where):
        rule(**spec)


def test_topics_named_by_routes():
    """The default topic is always among them."""
    found = rules.routes(
        {"metadata": {"name": "r", "uid": "u"}, "spec": {"routes": {"a": "FROM /messages/* INTO $upstream",
         "b": {"route": "FROM /messages/* INTO $upstream", "topic": "shop/alarms"}}}}
    )  # fmt: skip
    assert found.topics == {"default/telemetry", "shop/alarms"}
    assert found.route_names == {"a", "b"}


@pytest.mark.parametrize("topic", ["alarms", "/alarms", "shop/", "a/b/c", 3])
def test_a_topic_is_namespace_and_name(topic):
    """Anything else names no topic."""
    with pytest.raises(ValueError, match=r"routes\.a\.topic"):
        rules.routes({"metadata": {"name": "r", "uid": "u"}, "spec": {"routes": {"a": {"route": "x", "topic": topic}}}})
