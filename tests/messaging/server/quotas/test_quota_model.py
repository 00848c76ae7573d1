"""Quotas as people write them."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from fairlead_messaging.server.quotas import UNLIMITED, Quota, QuotaModel, Quotas


def test_the_first_entry_that_matches_counts_and_system_has_none() -> None:
    """Each namespace for itself."""
    quotas = Quotas([QuotaModel(namespace="shop-7", topics=5), QuotaModel(namespace="*", topics=1)])
    assert (quotas.of("shop-7"), quotas.of("x")) == (Quota(topics=5), Quota(topics=1))
    assert quotas.of("system") is UNLIMITED
    assert Quotas([]).of("x") is UNLIMITED


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"namespace": "a"}, "limits nothing"),
        ({"namespace": "system", "topics": 1}, "Fairlead's own"),
        ({"namespace": "a/b", "topics": 1}, "namespace's name"),
        ({"namespace": "a", "bytes_per_second": 0}, "bytes_per_second"),
    ],
)
def test_what_cannot_be_meant_is_refused(said: dict[str, Any], reason: str) -> None:
    """With its key."""
    with pytest.raises(pydantic.ValidationError, match=reason):
        QuotaModel.model_validate(said)
