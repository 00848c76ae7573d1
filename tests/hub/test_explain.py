"""Why an object is at a node or not, in words for people and codes for programs."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, ROUTES, live

from fairlead_hub import explain, view
from fairlead_hub.cluster import sync_rule
from fairlead_hub.io.cluster.watches import EDGE_ROUTES_KIND
from fairlead_hub.settings import DeletionGuardSettings
from fairlead_wire import message


@pytest.fixture
def core():
    made = Core("edge-1")
    made.hub.cluster.know_kind(EDGE_ROUTES_KIND)
    made.rule(CONFIG_MAPS)
    return made


def asked(core, node="edge-1", kind="configmap", name="a", namespace="shop"):
    return core.hub.view.explained(node, kind, namespace, name, core.now)


def test_a_node_that_is_not_known(core):
    """Is none, and is said to be none."""
    assert core.hub.view.node("nowhere", 0.0) is None
    assert asked(core, node="nowhere")["code"] == "no_node"


def test_a_kind_whose_only_rule_was_deleted(core):
    """It was watched until then: that nothing of it is known now does not mean that there is nothing."""
    one = core.put("a")
    core.connect().sent()
    core.hub.cluster.drop_rule("r")
    core.remove(one)
    core.settle()
    found = asked(core)
    assert (found["code"], found["answer"]) == (
        "not_watched",
        "no SyncRule names the kind ConfigMap, so it is not watched",
    )
    core.hub.cluster.break_rule(sync_rule.unreadable({"metadata": {"name": "bad"}}, "spec: why"), core.now)
    assert "SyncRule bad cannot be read: spec: why" in asked(core)["answer"]
    assert "SyncRule bad cannot be read: spec: why" in asked(core, kind="deployment")["answer"]


def test_before_the_cluster_is_listed(core):
    """A hub that just started says what it waits for instead of guessing."""
    young = Core("edge-1", listed=False)
    young.hub.cluster.input_synced("nodes")
    young.connect()
    assert asked(young)["answer"] == "syncrules are not listed yet"


def test_an_object_no_rule_selects(core):
    """It exists, and is none of this node's business."""
    core.rule({**CONFIG_MAPS, "namespaces": ["other"]})
    core.put("a")
    core.connect().sent()
    found = asked(core)
    assert found["code"] == "not_selected"
    assert found["wanted"]["resourceVersion"] == "1", "the cluster has it all the same"


def test_a_node_that_is_away(core):
    """With when it was last heard of, and whether it should hold this."""
    core.put("a")
    found = asked(core)
    assert found["code"] == "away"
    assert found["answer"] == "the node is away (last contact: never); it should hold this"


def test_an_object_on_its_way_and_there(core):
    """Comparing, in flight, held: with both versions once it is."""
    edge = core.connect("edge-1", live(CONFIG_MAP, "gone"))
    assert asked(core)["code"] == "no_object"
    one = core.put("a")
    assert asked(core)["code"] == "comparing"
    delete, update = edge.sent()[::-1]
    edge.ack(delete)
    assert asked(core)["code"] == "in_flight"
    edge.ack(update)
    found = asked(core)
    assert found["code"] == "held"
    assert found["wanted"] == found["held"] == {"uid": one.uid, "resourceVersion": "1", "digest": one.digest}


def test_a_parked_object_says_the_reason_and_when_it_is_tried_again(core):
    """Everything that is needed to find out why a change does not arrive."""
    core.put("a")
    edge = core.connect()
    edge.nack(edge.sent()[0], code="too_large", reason="over the limit")
    found = asked(core)
    assert found["code"] == "parked"
    assert found["answer"] == "parked after 0 retries (too_large: over the limit); retry in 5 min"


@pytest.mark.parametrize("called", ["configmap", "ConfigMap", "configmaps", "CONFIGMAPS"])
def test_a_kind_is_called_as_kubectl_calls_it(core, called):
    """Kind or plural, in any case."""
    core.put("a")
    assert asked(core, kind=called)["key"] == "configmaps/shop/a"


def step_of(session, key, now):
    return explain.step(view.at(session, key, now))


def test_every_step_has_its_words(core):
    """Queued, in flight, held, not wanted: one sentence each."""
    one = core.put("a")
    edge = core.connect()
    edge.session.frames(0.0, 0)
    assert step_of(edge.session, one.key, 0.0) == (
        "comparing",
        "the node's store is being compared",
    )
    edge = core.connect()
    [update] = edge.sent()
    assert step_of(edge.session, one.key, 1.0) == (
        "in_flight",
        "in flight, unacknowledged for 1.0 s",
    )
    second = core.put("b")
    assert step_of(edge.session, second.key, 1.0) == ("queued", "queued")
    edge.ack(update)
    assert step_of(edge.session, one.key, 1.0) == ("held", "in sync")
    assert step_of(edge.session, "configmaps/shop/none", 1.0) == ("not_wanted", "not wanted")


@pytest.mark.parametrize("kind", ["configmap", "ConfigMap", "configmaps"])
def test_what_is_held_of_a_kind_no_rule_names_any_more_is_explained(core, kind):
    """A hub that starts after the rule was deleted never learns what the kind is called, but the node holds it."""
    one = core.put("a")
    after = Core("edge-1", deletion_guard=DeletionGuardSettings(removals_max=1))
    edge = after.connect("edge-1", one, live(CONFIG_MAP, "b"))
    assert edge.sent() == []
    after.hub.desired_state.kinds.clear()
    assert asked(after, kind=kind)["code"] == "deletion_guard"
    assert asked(after, kind="secret")["code"] == "not_watched"


def test_a_kind_that_a_rule_names_and_that_cannot_be_listed_is_explained(core):
    """It is not that no rule names it."""
    core.hub.cluster.kind_frozen(("", "Widget"), "no such kind")
    found = asked(core, kind="widget")
    assert (found["code"], found["answer"]) == ("not_listed", "Widget cannot be listed: no such kind")


# ---- no, and why ----------------------------------------------------------------------------------


def test_a_misspelled_name_and_a_missing_namespace_are_not_the_same_as_not_selected(core):
    """With what was perhaps meant."""
    core.put("prices")
    core.put("other", namespace="ship")
    for connected in (False, True):
        if connected:
            core.connect().sent()
        wrong, elsewhere = asked(core, name="prises"), asked(core, name="prices", namespace="default")
        assert (wrong["code"], elsewhere["code"]) == ("no_object", "no_object")
        assert wrong["answer"] == "there is no ConfigMap prises in namespace shop; did you mean prices?"
        assert elsewhere["answer"].endswith("; there is one in namespace shop: use -n shop")
    assert asked(core, name="zzz")["answer"] == "there is no ConfigMap zzz in namespace shop"


def test_an_object_not_selected_for_a_node_that_is_away(core):
    """That the node is away is not the reason."""
    core.rule({**CONFIG_MAPS, "namespaces": ["other"]})
    core.put("a")
    found = asked(core)
    assert found["code"] == "not_selected" and found["answer"].endswith("; the node is away")


def test_rules_that_do_nothing_are_named_where_nothing_is_selected(core):
    """One that cannot be read, one whose version is not served."""
    core.rule({**CONFIG_MAPS, "namespaces": ["other"]})
    core.rule({"apiVersion": "v2", "kind": "ConfigMap"}, name="odd")
    core.hub.cluster.kind_served(("", "ConfigMap"), {"v1": "", "v2": "404"})
    core.hub.cluster.break_rule(sync_rule.unreadable({"metadata": {"name": "bad"}}, "spec: why"), core.now)
    core.put("a")
    core.connect().sent()
    answer = asked(core)["answer"]
    assert "SyncRule odd names v2 ConfigMap, which is not served" in answer
    assert "SyncRule bad cannot be read: spec: why" in answer
    assert asked(core, kind="gadget")["code"] == "not_watched"
    core.rule({"apiVersion": "shop.io/v1", "kind": "Gadget"}, name="gadgets")
    core.hub.cluster.kind_served(("shop.io", "Gadget"), {"shop.io/v1": "404"})
    core.settle()
    assert asked(core, kind="gadget")["code"] == "not_listed"


# ---- EdgeRoutes -----------------------------------------------------------------------------------


def routes(core, **spec):
    return core.put("main", ROUTES, namespace="", spec={"routes": {"a": "x", "b": "y"}, **spec})


def of_routes(core, kind="eroutes"):
    found = asked(core, kind=kind, name="main", namespace="default")
    return found["code"], found["answer"]


def test_routes_are_explained_as_what_they_are(core):
    """No SyncRule has to do with them, and on the node's disk is not in force."""
    routes(core, nodeSelector={"matchLabels": {"role": "shop"}})
    assert of_routes(core)[1].startswith("EdgeRoutes main is not for this node: its nodeSelector")
    one = routes(core)
    edge = core.opened("edge-1", one)
    assert of_routes(core) == ("held", "in sync; the node has not reported yet which of its routes it runs")
    bad = message.RouteError(route="b", message="expected a source", line=1, column=1, end_column=2)
    for errors, found in (([], ("held", "in sync; routes in force: a")), ([bad], ("refused", REFUSED))):
        said = message.RoutesStatus(uid=one.uid, resource_version="1", accepted=["a"], errors=errors, digest=one.digest)
        edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=1, routes={"main": said})))
        assert of_routes(core) == found


REFUSED = "the node holds it and refuses 1: b: expected a source; routes in force: a"


def test_routes_that_wait_or_cannot_be_read_say_so(core):
    """Each in its own words."""
    routes(core, routes={"a": {"route": "x", "topic": "shop/alarms"}})
    core.connect().sent()
    code, answer = of_routes(core)
    assert code == "withheld" and "shop/alarms" in answer
    assert of_routes(core, "edgeroutes")[0] == of_routes(core, "EdgeRoutes.fairlead.dev")[0] == "withheld"
    routes(core, nodeSelector=["x"])
    code, answer = of_routes(core)
    assert code == "unreadable" and "spec.nodeSelector" in answer


def test_every_code_is_in_the_reference():
    """Programs read them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "hub.md").read_text()
    assert not [code for code in get_args(explain.Code) if f"`{code}`" not in page]


def facts(**more):
    found = explain.ExplainFacts(
        node="edge-1",
        is_node=True,
        type="configmap",
        key="configmaps/shop/a",
        kind="ConfigMap",
        live=live(CONFIG_MAP, "a"),
        is_desired=True,
        not_synced="",
        unlistable="",
        is_named=True,
        namesakes=(),
        rules=(),
        routes_broken=None,
        delivery=None,
        last_contact="",
        identity_held=False,
        revoked="",
        paused="",
        routes=None,
    )
    return msgspec.structs.replace(found, **more)


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        ({"delivery": None, "revoked": "certificates are revoked"}, "identity_revoked", "certificates are revoked"),
        ({"is_node": False}, "no_node", "if the Node exists: kubectl label node edge-1 node-role.kubernetes.io/edge="),
        ({"is_node": False, "nodes": ("edge-01", "till")}, "no_node", "; did you mean edge-01? If the Node exists: "),
        ({"key": None, "unlistable": "Widget cannot be listed: 403"}, "not_listed", "Widget cannot be listed: 403"),
        ({"live": None, "is_named": False}, "not_watched", "no SyncRule names the kind ConfigMap"),
        (
            {"key": None, "type": "ConfgMap", "named_kinds": ("Secret", "ConfigMap")},
            "not_watched",
            "no SyncRule names the kind ConfgMap, so it is not watched; did you mean ConfigMap?",
        ),
        ({"live": None, "namesakes": (("shop", "b"),)}, "no_object", "there is no ConfigMap a in namespace shop"),
        ({"is_desired": False, "rules": ("r cannot be read",)}, "not_selected", "; r cannot be read; the node is away"),
        (
            {"is_desired": False, "naming": ("a", "a", "b")},
            "not_selected",
            "no SyncRule selects this object for this node (its kind is named by a, b); the node is away",
        ),
        ({"is_desired": False, "naming": "abcdefg"}, "not_selected", "named by a, b, c, d, e and 2 more)"),
        ({"identity_held": True}, "identity_held", "its certificate is from before"),
        ({"paused": "works"}, "away", "nothing is sent while it is paused: works"),
    ],
)
def test_a_step_is_made_from_facts_alone(more, code, text):
    """No hub is needed to ask."""
    step = explain.explain(facts(**more))
    assert step.code == code and text in step.text
