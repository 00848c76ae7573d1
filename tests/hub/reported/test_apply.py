"""What is written of a report, and what may be taken over."""

from __future__ import annotations

from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.reported import apply

IN_CLUSTER = 'conflict with "kubectl" using v1 .status.a'
OTHER_NODE = 'conflict with "fairlead-edge-edge-2" using v1 .status.a'


def test_only_the_status_of_this_very_object_is_written() -> None:
    found = live(CONFIG_MAP, "a")
    body = apply.body(found, "7", {"a": 1})
    metadata = body.pop("metadata")
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", "status": {"a": 1}}
    assert (metadata["name"], metadata["uid"], metadata["resourceVersion"]) == ("a", found.uid, "7")


def test_each_node_writes_under_its_own_name() -> None:
    assert apply.parameters("edge-1", force=False) == {
        "fieldManager": "fairlead-edge-edge-1",
        "fieldValidation": "Strict",
    }
    assert apply.parameters("edge-1", force=True)["force"] == "true"


def test_a_merge_patch_wins_over_the_cluster_and_not_over_nodes() -> None:
    assert apply.may_force("cluster", [IN_CLUSTER]) and not apply.may_force("cluster", [IN_CLUSTER, OTHER_NODE])
    assert apply.may_force("all", [OTHER_NODE]) and not apply.may_force("", [IN_CLUSTER])
    assert OTHER_NODE in apply.conflict_text([OTHER_NODE]) and "…" in apply.conflict_text([OTHER_NODE] * 9)


def test_a_status_of_another_type_is_known_by_its_words() -> None:
    text = "API server answered 500: failed to create typed patch object (default/a): .status.a: expected string"
    assert apply.is_of_another_type(500, text) and not apply.is_of_another_type(503, text)
    assert not apply.is_of_another_type(500, "etcd is away")
