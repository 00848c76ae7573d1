"""EdgeRoutes read by the model and by the agent: what the one takes, the other does not refuse for its shape."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.edges import route_manifests

from fairlead_edge.outbox import manifest
from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.custom_resources.route_specs import EdgeRoutesSpec
from fairlead_hub.cluster.custom_resources.specs import LabelSelector
from fairlead_wire.validation import route_manifest
from fairlead_wire.validation.model import MODELS

UP = route_manifests.UP
GOOD = {"schemaVersion": "1.1", "routes": {}, "storeAndForwardConfiguration": {}}


def mistakes(spec: Any) -> list[str]:
    return [str(each) for each in MODELS.find(spec, EdgeRoutesSpec)]


@pytest.mark.slow
def test_what_the_model_takes_is_a_manifest_whose_routes_have_the_right_shape() -> None:
    """Two thousand generated ones: single routes may still be wrong in their language, and have a place then."""
    taken = 0
    for spec in route_manifests.specs(3, 2000):
        if mistakes(spec):
            continue
        taken += 1
        parsed = manifest.parse(spec)
        assert [each for each in parsed.quarantined if each.line is None] == [], spec
        names = {name for name, route in spec["routes"].items() if route is not None}
        judged = {each.name for each in parsed.routes} | {each.name for each in parsed.quarantined}
        assert judged == names, spec
        assert sync_rule.routes({"metadata": {"name": "r", "uid": "u"}, "spec": spec}).route_names == set(
            spec["routes"]
        )
    assert 400 < taken < 1900


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schemaVersion": "1.0"}, ["schemaVersion: '1.0' is not supported; 1.1 to 1.3 are"]),
        (
            {"routes": {"a": {"route": UP, "priority": 10}}},
            ["routes.a.priority: must be a whole number from 0 to 9, is 10"],
        ),
        ({"routes": {"a": " "}}, ["routes.a: is missing or empty"]),
        ({"routes": {"a": {"priority": 1}}}, ["routes.a.route: required, but not set"]),
        (
            {"routes": {"a": {"route": UP, "topic": "system/x"}}},
            [
                "routes.a.topic: must not be in namespace system, which is reserved for Fairlead's own events, is"
                " 'system/x'"
            ],
        ),
    ],
)
def test_mistakes_are_reported_with_their_path(change: dict[str, Any], said: list[str]) -> None:
    """As the condition Valid of the object says them."""
    assert mistakes({**GOOD, **change}) == said


def test_what_must_be_there() -> None:
    """The agent has no defaults for these either."""
    assert [each.partition(":")[0] for each in mistakes({})] == list(GOOD)
    with pytest.raises(manifest.ManifestError) as refused:
        manifest.parse({})
    assert [each.key for each in refused.value.mistakes] == list(GOOD)


def test_the_fields_are_those_that_a_check_of_manifests_knows() -> None:
    assert {each.alias for each in EdgeRoutesSpec.model_fields.values()} == set(route_manifest.SPEC_KEYS)
    assert {each.alias for each in LabelSelector.model_fields.values()} == set(route_manifest.SELECTOR_KEYS)
