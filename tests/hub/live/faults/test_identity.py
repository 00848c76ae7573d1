"""A dose of the fault test of joining: the hub that admits is stopped before its write, or killed behind it."""

from __future__ import annotations

import pytest
from tests.faults import fault_identity
from tests.faults.collect import held


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.faults
def test_one_use_is_one_certificate_whatever_becomes_of_the_hub() -> None:
    """At a hub that was deposed and goes on, and at one that was killed and starts again."""
    count = fault_identity.run(2, 5, lambda _: None, pause_seconds=20.0)
    assert count["kills"] == 2 and count["acknowledged"] == 2
    assert held({**count, "name": "", "room": "downstream", "seed": 5, "error": ""}), count
