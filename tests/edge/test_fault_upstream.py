"""A short dose of the upstream fault tests; ``make faults ONLY=upstream`` is the long one."""

from __future__ import annotations

import pytest
from tests.faults import fault_upstream, fault_upstream_line
from tests.faults.collect import Count

SEED = 20261120


def clean(count: Count) -> bool:
    return count["acknowledged"] > 0 and count["lost"] == count["duplicated"] == count["untrue"] == 0


@pytest.mark.faults
def test_edge_killed_while_it_accepts_and_sends() -> None:
    """kill -9 and cut links: what was answered arrives once, and the books balance."""
    count = fault_upstream.run(4, SEED, print)
    assert clean(count), count


@pytest.mark.faults
@pytest.mark.kube
def test_every_party_of_the_line_up_killed() -> None:
    """Edge, hub and messaging: what was answered is in the topic, once."""
    count = fault_upstream_line.run(4, SEED, print)
    assert clean(count), count
