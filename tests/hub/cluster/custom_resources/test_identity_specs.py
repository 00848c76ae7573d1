"""What the models refuse; the API server's own checks are tried in ``test_definitions_live`` with all definitions."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from fairlead_hub.cluster.custom_resources.identity_specs import EdgeNodeSpec, JoinTokenSpec

TOKEN = {"secretSHA256": "ab" * 32, "node": "shop-17", "expires": "2030-01-01T00:00:00Z"}


def test_a_token_admits_one_node_once() -> None:
    found = JoinTokenSpec.model_validate(TOKEN)
    assert (found.node, found.pattern, found.uses, found.replace) == ("shop-17", None, 1, False)


@pytest.mark.parametrize(
    "change",
    [
        {"secretSHA256": "secret"}, {"node": "Shop_17"}, {"node": None}, {"pattern": "shop-*"}, {"uses": 0},
        {"node": None, "pattern": "*shop"}, {"node": None, "pattern": "shop"}, {"uses": 10_001}, {"more": 1},
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        JoinTokenSpec.model_validate({**TOKEN, **change})


def test_an_edge_node_may_say_from_when_on_its_certificates_count() -> None:
    found = EdgeNodeSpec.model_validate({"revoked": {"before": "2030-01-01T00:00:00Z", "reason": "stolen"}})
    assert found.revoked is not None and found.revoked.reason == "stolen"
    assert EdgeNodeSpec.model_validate({}).revoked is None
    with pytest.raises(pydantic.ValidationError):
        EdgeNodeSpec.model_validate({"revoked": {"reason": "stolen"}})
