"""The demo's own judgement of who should hold what, so that the hub's cannot vouch for itself."""

from __future__ import annotations

from typing import Any

from e2e.demo import expected


def item(kind: str, name: str, labels: dict[str, str] | None = None, **rest: Any) -> dict[str, Any]:
    """An object as kubectl prints it."""
    return {"kind": kind, "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}}, **rest}


POD = item(
    "Pod",
    "p",
    spec={
        "nodeName": "edge-1",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [
            {
                "envFrom": [{"configMapRef": {"name": "env"}}],
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}, {"name": "B"}],
            }
        ],
        "volumes": [
            {"configMap": {"name": "mounted"}},
            {"secret": {"secretName": "sealed"}},
            {"projected": {"sources": [{"configMap": {"name": "projected"}}]}},
            {"emptyDir": {}},
        ],
    },
)


def test_everything_a_pod_mounts_or_names_is_referenced() -> None:
    """Volumes, projected volumes, environment and pull secrets."""
    assert set(expected.referenced(POD)) == {
        ("Secret", "pull"),
        ("ConfigMap", "env"),
        ("Secret", "key"),
        ("ConfigMap", "mounted"),
        ("Secret", "sealed"),
        ("ConfigMap", "projected"),
    }


def test_a_share_is_bound_pods_what_they_name_and_what_is_for_everybody() -> None:
    """Another node's Pod and a ConfigMap that no Pod names stay away."""
    shared = item("ConfigMap", "tides", {expected.SHARED_LABEL: "everywhere"})
    elsewhere = item("Pod", "q", spec={"nodeName": "edge-2", "containers": []})
    items = [POD, elsewhere, shared, item("ConfigMap", "env"), item("ConfigMap", "office"), item("EdgeRoutes", "r")]
    assert set(expected.share("edge-1", items)) == {
        ("Pod", "p"),
        ("ConfigMap", "env"),
        ("ConfigMap", "tides"),
        ("EdgeRoutes", "r"),
    }


def test_differences_are_told_in_words() -> None:
    """Missing, too much, and the field that is not equal."""
    here = {("ConfigMap", name): item("ConfigMap", name, data={"a": "1"}) for name in ("same", "changed", "missing")}
    there = {("ConfigMap", name): item("ConfigMap", name, data={"a": "1"}) for name in ("same", "extra")}
    there["ConfigMap", "changed"] = item("ConfigMap", "changed", data={"a": "2"})
    assert expected.differences(here, there) == [
        "ConfigMap missing is missing",
        "ConfigMap extra should not be there",
        "ConfigMap changed differs in data",
    ]


def test_a_recreated_object_is_not_the_same() -> None:
    """Same name, same content, another uid."""
    here, there = item("ConfigMap", "c"), item("ConfigMap", "c")
    there["metadata"]["uid"] = "older"
    key = ("ConfigMap", "c")
    assert expected.differences({key: here}, {key: there}) == ["ConfigMap c differs in uid"]


def record(uid: str, **status: str) -> dict[str, Any]:
    """An ObjectSync of edge-1."""
    spec = {"nodeName": "edge-1", "objectUID": uid, "objectKind": "ConfigMap", "objectName": uid}
    return {"spec": spec, "status": status}


def test_records_are_behind_until_held_is_wanted() -> None:
    """No record, a pending one, an old version, and one too many are four different faults."""
    wanted = {"edge-1": {("ConfigMap", name): item("ConfigMap", name) for name in ("a", "b", "c", "d")}}
    records = [
        record("uid-a", state="Synced", objectResourceVersion="7", wantedResourceVersion="7"),
        record("uid-b", state="Pending", reason="Away"),
        record("uid-c", state="Synced", objectResourceVersion="7", wantedResourceVersion="8"),
        record("uid-x", state="Synced"),
    ]
    assert expected.behind(records, wanted) == [
        "edge-1: ConfigMap uid-b is Pending Away",
        "edge-1: ConfigMap uid-c holds 7, not 8",
        "edge-1: ConfigMap uid-x has a record but should not be there",
        "edge-1: ConfigMap d has no record",
    ]
