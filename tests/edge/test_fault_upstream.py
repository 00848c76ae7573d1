"""A short dose of the upstream fault tests; ``make faults ONLY=upstream`` is the long one."""

from __future__ import annotations

import pytest
from tests.faults import fault_brokered, fault_edge_store, fault_mqtt, fault_upstream, fault_upstream_line
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
def test_modules_and_the_agent_killed_while_messages_for_modules_come_and_go() -> None:
    count = fault_brokered.run(4, SEED, print)
    assert clean(count), count


@pytest.mark.faults
def test_edge_killed_while_mqtt_clients_publish() -> None:
    count = fault_mqtt.run(3, SEED, print)
    assert clean(count), count


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.kube
def test_every_party_of_the_line_up_killed() -> None:
    """Edge, hub and messaging: what was answered is in the topic, once."""
    count = fault_upstream_line.run(4, SEED, print)
    assert clean(count), count


@pytest.mark.faults
def test_disks_that_damage_the_stores() -> None:
    """Any file, while the agent runs and after its end: nothing untrue is delivered or served, and all is counted."""
    count = fault_edge_store.run(4, SEED, print)
    assert clean(count), count
