"""What a node says is worth what rules placed there; a hostile one reaches nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import POD

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import ServedKind
from fairlead_hub.reported import judge
from fairlead_wire import message
from fairlead_wire.link import codec

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
    found = judge.judge(core.hub.placement, node, report, content)
    return found.nack.code if isinstance(found, judge.ReportRefused) else ""


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
    found = judge.judge(Core("edge-1", listed=False).hub.placement, "edge-1", report, b"{}")
    assert isinstance(found, judge.ReportRefused) and not found.nack.permanent and found.nack.retry_after


def test_people_are_told_on_objects_of_the_node_alone(core: Core) -> None:
    """An Event on each object that a node can name would be a way to write anywhere."""
    report = message.Report(id=1, resource=PATH, uid="uid-a")
    mine = judge.judge(core.hub.placement, "edge-1", report, b"[]")
    assert isinstance(mine, judge.ReportRefused) and mine.live is not None
    foreign = judge.judge(core.hub.placement, "nobody", report, b"{}")
    assert isinstance(foreign, judge.ReportRefused) and foreign.live is None
