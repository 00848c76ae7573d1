"""What clients ask before they ask for objects."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.presentation import discovery

VERSIONS = ["v1alpha1", "v1beta2", "v2", "v10", "v1", "v1beta10", "first"]
KINDS = [
    Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True),
    Kind(group="", version="v1", plural="nodes", kind="Node", namespaced=False),
    *(Kind(group="shop.example", version=each, plural="tills", kind="Till", namespaced=True) for each in VERSIONS),
]


def test_core_resources_carry_scope_kind_verbs_and_short_names() -> None:
    document = discovery.api_resources("", "v1", KINDS)
    assert document is not None and document["groupVersion"] == "v1"
    assert document["resources"][0] == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": ["get", "list", "watch"],
        "shortNames": ["cm"],
    }
    assert document["resources"][1]["namespaced"] is False


def test_versions_of_a_group_are_ordered_as_kubernetes_orders_them() -> None:
    group = discovery.api_group("shop.example", KINDS)
    assert group is not None
    assert [each["version"] for each in group["versions"]] == [
        "v10",
        "v2",
        "v1",
        "v1beta10",
        "v1beta2",
        "v1alpha1",
        "first",
    ]
    assert group["preferredVersion"] == {"groupVersion": "shop.example/v10", "version": "v10"}


def test_the_version_names_the_program() -> None:
    assert discovery.server_version("9.9")["gitVersion"] == "v1.36.0+fairlead-edge.9.9"


# ---- the documents kubectl looks at before it writes or explains ----------------------------------


MAPS = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
NODES = Kind(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
TILLS = Kind(group="shop.example", version="v2", plural="tills", kind="Till", namespaced=True)


def test_the_index_names_a_document_by_its_hash_for_each_group_and_version() -> None:
    """Another set of kinds, or of kinds that may be reported, is another document under another URL."""
    found = discovery.describe([MAPS, NODES, TILLS])
    assert set(found) == {"", "api/v1", "apis/shop.example/v2"}
    index = msgspec.json.decode(found[""].body)["paths"]
    assert index["api/v1"] == {"serverRelativeURL": f"/openapi/v3/api/v1?hash={found['api/v1'].hash}"}
    other = discovery.describe([MAPS, NODES, TILLS], {TILLS})
    assert other["api/v1"].hash == found["api/v1"].hash
    assert other["apis/shop.example/v2"].hash != found["apis/shop.example/v2"].hash


@pytest.mark.parametrize("kind", [MAPS, NODES, TILLS])
def test_clients_find_the_parameters_of_every_patch(kind: Kind) -> None:
    """kubectl sends nothing where it finds no PATCH of the kind with dryRun and fieldValidation."""
    document = discovery.document([kind], {kind})
    patches = {path: each["patch"] for path, each in document["paths"].items() if "patch" in each}
    assert len(patches) == 2
    for path, patch in patches.items():
        assert patch["x-kubernetes-group-version-kind"] == {
            "group": kind.group, "version": kind.version, "kind": kind.kind,
        }  # fmt: skip
        assert patch["x-kubernetes-action"] == "patch"
        names = {each["name"] for each in patch["parameters"] if each["in"] == "query"}
        assert names == {"dryRun", "fieldManager", "fieldValidation", "force"}
        assert set(patch["requestBody"]["content"]) == {"application/merge-patch+json", "application/apply-patch+yaml"}
        assert set(patch["responses"]) == ({"200"} if path.endswith("/status") else {"405"})


def test_paths_are_those_that_are_served() -> None:
    assert list(discovery.document([NODES])["paths"]) == ["/api/v1/nodes", "/api/v1/nodes/{name}"]
    root = "/apis/shop.example/v2"
    assert list(discovery.document([TILLS], {TILLS})["paths"]) == [
        f"{root}/namespaces/{{namespace}}/tills",
        f"{root}/namespaces/{{namespace}}/tills/{{name}}",
        f"{root}/tills",
        f"{root}/namespaces/{{namespace}}/tills/{{name}}/status",
    ]


@pytest.mark.slow
def test_a_document_is_bounded() -> None:
    many = [
        Kind(group="g", version="v1", plural=f"k{number}s", kind=f"K{number}", namespaced=True)
        for number in range(1100)
    ]
    document = msgspec.json.decode(discovery.describe(many)["apis/g/v1"].body)
    assert len(document["components"]["schemas"]) == discovery.KINDS_MAX
