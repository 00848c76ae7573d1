"""SyncRule and EdgeRoutes as the hub reads them."""

import pytest
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.cluster import sync_rule


def rule(**spec):
    return sync_rule.rule({"metadata": {"name": "r", "generation": 3}, "spec": spec})


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
        (
            {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "nodeselector": {}},
            r"spec.nodeselector: unknown key",
        ),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod", "labels": {}}]}, r"\[0\].labels: unknown key"),
        ({"resources": [{"apiVersion": "a/b/c", "kind": "Pod"}]}, "is not an apiVersion such as v1"),
        ({"resources": [{"apiVersion": "../v1", "kind": "Pod"}]}, "is not an apiVersion such as v1"),
        ({"resources": [{"apiVersion": "v1", "kind": "Config Map"}]}, "is not a kind such as ConfigMap"),
        ({"resources": [{"apiVersion": "fairlead.dev/v1alpha1", "kind": "ObjectSync"}]}, "records deliveries"),
        ({"resources": [{"apiVersion": "fairlead.dev/v2", "kind": "ClusterObjectSync"}]}, "records deliveries"),
        (
            {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "delivery": {"minimum_delay": 9, "maximum_delay": 1}},
            "spec.delivery.maximum_delay",
        ),
        ({"resources": [{"apiVersion": "v1", "kind": "Pod"}], "delivery": {"minimum_delay": 0}}, "above 0"),
    ],
)
def test_nonsense_names_its_field(spec, where):
    """What the schema lets through is refused here, with the field and the reason."""
    with pytest.raises(ValueError, match=where):
        rule(**spec)


def test_topics_named_by_routes():
    """The default topic is always among them."""
    found = sync_rule.routes(
        {"metadata": {"name": "r", "uid": "u"}, "spec": {"routes": {"a": "FROM /messages/* INTO $upstream",
         "b": {"route": "FROM /messages/* INTO $upstream", "topic": "shop/alarms"}}}}
    )  # fmt: skip
    assert found.topics == {"default/telemetry", "shop/alarms"}
    assert found.route_names == {"a", "b"}


@pytest.mark.parametrize("topic", ["alarms", "/alarms", "shop/", "a/b/c", 3, "a b/c", "system/events", "ü/x"])
def test_a_topic_that_is_none_is_left_out_and_the_others_count(topic):
    """Routes are judged one by one, by the edge; a bad one spoils nothing."""
    table = {"a": {"route": "x", "topic": topic}, "b": {"route": "x", "topic": "shop/alarms"}, "c": 7}
    found = sync_rule.routes({"metadata": {"name": "r", "uid": "u"}, "spec": {"routes": table}})
    assert found.topics == {"default/telemetry", "shop/alarms"}
    assert found.route_names == {"a", "b", "c"}


@pytest.mark.parametrize("table", [None, [], "x", ["a"], 3])
def test_routes_that_are_not_a_table_are_refused_by_the_edge(table):
    """The object goes to its nodes, who say what is wrong with it."""
    found = sync_rule.routes({"metadata": {"name": "r", "uid": "u"}, "spec": {"routes": table}})
    assert found.topics == {"default/telemetry"} and found.route_names == frozenset()


@pytest.mark.parametrize("spec", [{"nodeSelector": {"site": "x"}}, {"nodeselector": {}}, ["x"]])
def test_routes_for_unknown_nodes_cannot_be_read(spec):
    """A misspelled selector is not for every node."""
    with pytest.raises(ValueError, match="spec"):
        sync_rule.routes({"metadata": {"name": "r", "uid": "u"}, "spec": spec})


def test_a_rule_keeps_its_form_for_its_status():
    """As much as an object has room for."""
    resources = [{"apiVersion": "v1", "kind": "ConfigMap"}]
    assert rule(resources=resources).form == '{"resources":[{"apiVersion":"v1","kind":"ConfigMap"}]}'
    many = [{**resources[0], "namespaces": [f"{n:063}" for n in range(1000)]}] * 8
    assert rule(resources=many).form == ""


def test_a_form_that_was_too_large_to_keep_counts_as_unknown():
    """That it was in force is known."""
    body = {"metadata": {"name": "r", "generation": 4}, "spec": {"resources": [{"apiVersion": "v1", "kind": "Pod"}]}}
    for kept in ({"generation": 3, "spec": ""}, {"generation": 3, "spec": "{"}, {"generation": 3, "spec": "[]"}):
        found = sync_rule.unreadable({**body, "status": {"observedGeneration": 4, "lastReadable": kept}}, "why")
        assert found.last is None and found.reach is not None
    assert sync_rule.unreadable({**body, "status": {"observedGeneration": 4}}, "why").reach is None


@pytest.mark.parametrize(
    ("accepted", "kept"),
    [(("True", "Accepted"), True), (("False", sync_rule.IN_FORCE), True), (("False", sync_rule.MAY_BE_IN_FORCE), True),
     (("False", "Invalid"), False)],
)  # fmt: skip
def test_that_a_rule_was_in_force_is_known_also_where_its_form_was_pruned(accepted, kept):
    """Definitions older than the hub keep conditions, and nothing they do not know."""
    said = {"type": "Accepted", "status": accepted[0], "reason": accepted[1]}
    body = {"metadata": {"name": "r", "generation": 2}, "spec": {}}
    found = sync_rule.unreadable({**body, "status": {"observedGeneration": 2, "conditions": [said]}}, "why")
    assert (found.last, found.reach is not None) == (None, kept)


def test_a_doubt_about_the_selection_outlives_the_hub_that_had_it():
    """By then every generation was seen; an older form is known, and the one between never was (seed 549799)."""
    said = {"type": "Accepted", "status": "False", "reason": sync_rule.MAY_BE_IN_FORCE}
    kept = {"generation": 1, "spec": '{"resources":[{"apiVersion":"v1","kind":"Pod"}]}'}
    spec = {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1"}]}
    body = {"metadata": {"name": "r", "generation": 3}, "spec": spec}
    status = {"observedGeneration": 3, "lastReadable": kept, "conditions": [said]}
    found = sync_rule.unreadable({**body, "status": status}, "why")
    assert found.last is not None and found.last.entries[0].kind == "Pod"
    assert found.reach is not None and [entry.kind for entry in found.reach.entries] == ["ConfigMap"]


@pytest.mark.parametrize("status", [None, [], {"conditions": "x"}, {"conditions": [3]}, {"observedGeneration": "x"}])
def test_a_status_written_by_hand_ends_nothing(status):
    """Whatever stands there."""
    found = sync_rule.unreadable({"metadata": {"name": "r", "generation": 1}, "spec": {}, "status": status}, "why")
    assert (found.last, found.reach) == (None, None)


@pytest.mark.parametrize("text", ["", "x", "[" * 5000, '{"a":' * 1100 + "1" + "}" * 1100, "[1]", "null"])
def test_a_last_readable_form_that_was_edited_is_none(text):
    """It stands in the status, as text of any depth."""
    body = {"metadata": {"name": "r"}, "spec": {"resources": []}, "status": {"lastReadable": {"spec": text}}}
    assert sync_rule.unreadable(body, "why").last is None


def test_all_mistakes_are_reported_at_once():
    """With what is allowed, and the right word where one is near; very many are counted."""
    entry = {"apiVersion": "v1", "kind": "Secret", "select": "bounded", "priorty": 3}
    with pytest.raises(ValueError) as refused:
        rule(resources=[entry], priority=12, delivery={"minimum_delay": 9, "maximum_delay": 1})
    assert str(refused.value).split("; ") == [
        "spec.resources[0].select: must be one of bound, referenced, all, is 'bounded'", "did you mean bound?",
        "spec.resources[0].priorty: unknown key", "did you mean resources[0].priority?",
        "spec.delivery.maximum_delay: must not be below minimum_delay, is 1 < 9",
        "spec.priority: must be a whole number from 0 to 9, is 12",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"and 2 more$"):
        rule(resources=[{"apiVersion": "v1", "kind": "Pod", "priority": 10}] * 12)
