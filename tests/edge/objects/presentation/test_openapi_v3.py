"""The documents kubectl looks at before it writes or explains."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.presentation import openapi_v3

MAPS = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
NODES = Kind(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
TILLS = Kind(group="shop.example", version="v2", plural="tills", kind="Till", namespaced=True)


def test_the_index_names_a_document_by_its_hash_for_each_group_and_version() -> None:
    """Another set of kinds, or of kinds that may be reported, is another document under another URL."""
    found = openapi_v3.describe([MAPS, NODES, TILLS])
    assert set(found) == {"", "api/v1", "apis/shop.example/v2"}
    index = msgspec.json.decode(found[""].body)["paths"]
    assert index["api/v1"] == {"serverRelativeURL": f"/openapi/v3/api/v1?hash={found['api/v1'].hash}"}
    other = openapi_v3.describe([MAPS, NODES, TILLS], {TILLS})
    assert other["api/v1"].hash == found["api/v1"].hash
    assert other["apis/shop.example/v2"].hash != found["apis/shop.example/v2"].hash


@pytest.mark.parametrize("kind", [MAPS, NODES, TILLS])
def test_clients_find_the_parameters_of_every_patch(kind: Kind) -> None:
    """kubectl sends nothing where it finds no PATCH of the kind with dryRun and fieldValidation."""
    document = openapi_v3.document([kind], {kind})
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
    """By scope; a status only where one may be reported."""
    assert list(openapi_v3.document([NODES])["paths"]) == ["/api/v1/nodes", "/api/v1/nodes/{name}"]
    root = "/apis/shop.example/v2"
    assert list(openapi_v3.document([TILLS], {TILLS})["paths"]) == [
        f"{root}/namespaces/{{namespace}}/tills",
        f"{root}/namespaces/{{namespace}}/tills/{{name}}",
        f"{root}/tills",
        f"{root}/namespaces/{{namespace}}/tills/{{name}}/status",
    ]


def test_a_document_is_bounded() -> None:
    """A cluster with very many kinds costs no more."""
    many = [
        Kind(group="g", version="v1", plural=f"k{number}s", kind=f"K{number}", namespaced=True)
        for number in range(1100)
    ]
    document = msgspec.json.decode(openapi_v3.describe(many)["apis/g/v1"].body)
    assert len(document["components"]["schemas"]) == openapi_v3.KINDS_MAX
