"""What a node says is worth what rules placed there; a hostile one reaches nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import CONFIG_MAP, POD, live

from fairlead_hub import status_from_edge
from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import ServedKind
from fairlead_hub.status_from_edge import NOTHING, RulesFrame, RulesOfNodes
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

ALLOWED = {**CONFIG_MAPS, "namespaces": ["shop"], "statusFromEdge": True}
PATH = "api/v1/namespaces/shop/configmaps/a"


@pytest.fixture
def core() -> Core:
    made = Core("edge-1", "edge-2")
    made.node("edge-1", site="1")
    made.rule(ALLOWED, {"apiVersion": "v1", "kind": "Pod", "select": "bound", "statusFromEdge": True},
              nodeSelector={"matchLabels": {"site": "1"}})  # fmt: skip
    made.rule(CONFIG_MAPS, name="others")
    made.put("a")
    return made


def judged(core: Core, content: bytes = b'{"a":1}', *, node: str = "edge-1", **more: Any) -> str:
    """The code of the refusal; empty when it is accepted."""
    report = message.Report(**{"id": 1, "resource": PATH, "uid": "uid-a", **more})
    found = status_from_edge.judge(core.hub.placement, node, report, content)
    return found.nack.code if isinstance(found, status_from_edge.ReportRefused) else ""


def test_what_a_rule_placed_there_may_be_reported(core: Core) -> None:
    assert judged(core) == ""
    encoding, packed = codec.pack(b'{"a":"' + b"x" * 1000 + b'"}')
    assert judged(core, packed, encoding=encoding) == ""


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("not_allowed", {"node": "edge-2"}),
        ("uid_changed", {"uid": "another"}),
        ("not_found", {"resource": "api/v1/namespaces/shop/configmaps/none"}),
        ("not_found", {"resource": "apis/fairlead.dev/v1alpha1/syncrules/r"}),
        ("malformed", {"resource": "../../etc"}),
        ("malformed", {"resource": "x" * 5000}),
        ("malformed", {"content": b"[]"}),
        ("malformed", {"content": b"\xff"}),
        ("malformed", {"content": b'{"a":' * 1000 + b"1" + b"}" * 1000}),
        ("too_large", {"content": b'"' + b"x" * message.STATUS_BYTES_MAX + b'"'}),
        ("malformed", {"content": b"no zstd", "encoding": "zstd"}),
        ("other_version", {"resource": "api/v2/namespaces/shop/configmaps/a"}),
    ],
)
def test_nothing_else(core: Core, code: str, more: dict[str, Any]) -> None:
    assert judged(core, **more) == code


def test_a_bomb_is_refused_by_what_it_declares(core: Core) -> None:
    encoding, packed = codec.pack(b" " * 8_000_000)
    assert judged(core, packed, encoding=encoding) == "too_large"


def test_a_pod_of_another_node_is_not_its_business(core: Core) -> None:
    for name, node in (("mine", "edge-1"), ("theirs", "edge-2")):
        core.put(name, POD, spec={"nodeName": node})
    path = "api/v1/namespaces/shop/pods/"
    assert judged(core, resource=f"{path}mine", uid="uid-mine") == ""
    assert judged(core, resource=f"{path}theirs", uid="uid-theirs") == "not_placed"


def test_our_own_kinds_are_never_reported_of_whatever_a_rule_says(core: Core) -> None:
    """As if a rule had come past the check of the definition, and the hub's own."""
    kind = ServedKind(group="fairlead.dev", version="v1alpha1", kind="EdgeNode", plural="edgenodes", namespaced=False)
    entry = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode"}
    core.hub.cluster.know_kind(kind)
    core.hub.cluster.kind_synced(kind.group_kind)
    rule = sync_rule.rule({"metadata": {"name": "own"}, "spec": {"resources": [entry]}})
    forged = [msgspec.structs.replace(each, status_from_edge=True) for each in rule.entries]
    core.hub.cluster.set_rule(msgspec.structs.replace(rule, entries=forged), core.now)
    own = core.put("edge-1", kind, namespace="")
    path = "apis/fairlead.dev/v1alpha1/edgenodes/edge-1"
    assert core.hub.placement.desired("edge-1", own) is not None
    assert judged(core, resource=path, uid="uid-edge-1") == "not_allowed"


def test_nothing_is_refused_for_good_before_all_is_listed() -> None:
    report = message.Report(id=1, resource=PATH, uid="u")
    found = status_from_edge.judge(Core("edge-1", listed=False).hub.placement, "edge-1", report, b"{}")
    assert isinstance(found, status_from_edge.ReportRefused) and not found.nack.permanent and found.nack.retry_after


def test_people_are_told_on_objects_of_the_node_alone(core: Core) -> None:
    """An Event on each object that a node can name would be a way to write anywhere."""
    report = message.Report(id=1, resource=PATH, uid="uid-a")
    mine = status_from_edge.judge(core.hub.placement, "edge-1", report, b"[]")
    assert isinstance(mine, status_from_edge.ReportRefused) and mine.live is not None
    foreign = status_from_edge.judge(core.hub.placement, "nobody", report, b"{}")
    assert isinstance(foreign, status_from_edge.ReportRefused) and foreign.live is None


IN_CLUSTER = 'conflict with "kubectl" using v1 .status.a'
OTHER_NODE = 'conflict with "fairlead-edge-edge-2" using v1 .status.a'


def test_only_the_status_of_this_very_object_is_written() -> None:
    found = live(CONFIG_MAP, "a")
    body = status_from_edge.body(found, "7", {"a": 1})
    metadata = body.pop("metadata")
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", "status": {"a": 1}}
    assert (metadata["name"], metadata["uid"], metadata["resourceVersion"]) == ("a", found.uid, "7")


def test_each_node_writes_under_its_own_name() -> None:
    assert status_from_edge.parameters("edge-1", force=False) == {
        "fieldManager": "fairlead-edge-edge-1",
        "fieldValidation": "Strict",
    }
    assert status_from_edge.parameters("edge-1", force=True)["force"] == "true"


def test_a_merge_patch_wins_over_the_cluster_and_not_over_nodes() -> None:
    assert status_from_edge.may_force("cluster", [IN_CLUSTER]) and not status_from_edge.may_force(
        "cluster", [IN_CLUSTER, OTHER_NODE]
    )
    assert status_from_edge.may_force("all", [OTHER_NODE]) and not status_from_edge.may_force("", [IN_CLUSTER])
    assert OTHER_NODE in status_from_edge.conflict_text([OTHER_NODE]) and "…" in status_from_edge.conflict_text(
        [OTHER_NODE] * 9
    )


def test_a_status_of_another_type_is_known_by_its_words() -> None:
    text = "API server answered 500: failed to create typed patch object (default/a): .status.a: expected string"
    assert status_from_edge.is_of_another_type(500, text) and not status_from_edge.is_of_another_type(503, text)
    assert not status_from_edge.is_of_another_type(500, "etcd is away")


ALLOWING_RULES = {**CONFIG_MAPS, "statusFromEdge": True}
SITE = {"matchLabels": {"site": "1"}}


def told(core: Core, node: str = "edge-1") -> list[message.StatusRule]:
    found = RulesOfNodes(core.hub.placement.rules).of(node)
    text = codec.unpack(found.header.encoding, found.content)
    assert found == NOTHING or found.header.digest == digest.content_digest(text)
    return msgspec.json.decode(text, type=list[message.StatusRule]) if text else []


def test_nothing_is_said_where_no_rule_allows_status() -> None:
    core = Core("edge-1").rule(CONFIG_MAPS)
    assert RulesOfNodes(core.hub.placement.rules).of("edge-1") == NOTHING


def test_the_entries_of_rules_that_select_the_node() -> None:
    core = Core("edge-1", "edge-2")
    core.node("edge-1", site="1")
    selector: dict[str, Any] = {"matchLabels": {"b": "2", "a": "1"}}
    core.rule({**ALLOWING_RULES, "namespaces": ["x", "a"], "labelSelector": selector}, name="one", nodeSelector=SITE)
    core.rule(CONFIG_MAPS, name="all")
    labels = [message.LabelTerm("a", "In", ["1"]), message.LabelTerm("b", "In", ["2"])]
    first = message.StatusRule(rule="one", kind="ConfigMap", namespaces=["a", "x"], labels=labels, allowed=True)
    assert told(core) == [first, message.StatusRule(rule="all", kind="ConfigMap")]
    assert told(core, "edge-2") == []


def test_the_same_frame_goes_to_all_nodes_of_the_same_rules() -> None:
    core = Core("edge-1", "edge-2").rule(ALLOWING_RULES)
    rules = RulesOfNodes(core.hub.placement.rules)
    first = rules.of("edge-1")
    assert rules.of("edge-2") is first
    core.rule(CONFIG_MAPS)
    assert isinstance(first, RulesFrame) and rules.of("edge-1") == NOTHING


def test_more_than_a_node_takes_is_cut_and_what_allows_stays() -> None:
    core = Core("edge-1")
    for number in range(5):
        core.rule(*[CONFIG_MAPS] * 256, name=f"a{number}")
    core.rule(ALLOWING_RULES, name="z")
    found = told(core)
    assert len(found) == message.STATUS_RULES_MAX and found[0].rule == "z"
    many = [f"{number:060}" for number in range(1024)]
    core.rule(*[{**ALLOWING_RULES, "namespaces": many}] * 40, name="z")
    assert len(msgspec.json.encode(told(core))) <= message.STATUS_RULES_BYTES_MAX
