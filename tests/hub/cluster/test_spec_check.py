"""SyncRules and EdgeRoutes held against the models of their definitions."""

import pytest

from fairlead_hub.cluster.sync_rule import check_spec

ROUTES = {"schemaVersion": "1.1", "routes": {}, "storeAndForwardConfiguration": {}}
RULE = {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}


@pytest.mark.parametrize(("collection", "spec"), [("syncrules", RULE), ("edgeroutes", ROUTES)])
def test_what_is_as_the_definition_says_has_no_mistakes(collection, spec):
    """The check names object and generation, so that an older one is not taken for this."""
    found = check_spec(collection, "r", "u", 3, spec)
    assert (found.collection, found.name, found.uid, found.generation, found.mistakes) == (collection, "r", "u", 3, "")


def test_every_mistake_is_named():
    """Also of routes that older definitions let through."""
    found = check_spec("edgeroutes", "r", "u", 1, {"routes": 3, "schemaVersion": 1.1, "nodeSelector": {"a": "b"}})
    assert [each.partition(":")[0] for each in found.mistakes.split("; ")] == [
        "spec.nodeSelector.a", "spec.schemaVersion", "spec.routes", "spec.storeAndForwardConfiguration",
    ]  # fmt: skip


@pytest.mark.parametrize("spec", [None, 3, [], "x"])
def test_whatever_the_spec_is_it_is_no_defect_of_ours(spec):
    """A person wrote it."""
    assert check_spec("syncrules", "r", "u", 1, spec).mistakes


def test_a_document_nested_too_deeply_is_a_mistake_like_others():
    """It ends no thread."""
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert check_spec("syncrules", "r", "u", 1, {"resources": deep}).mistakes
