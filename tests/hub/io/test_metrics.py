"""The hub's numbers for Prometheus: every one has a name, and no label grows with what others invent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.counts import CODES_MAX
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.metrics import HubMetrics


@pytest.fixture
async def kube() -> AsyncIterator[Kube]:
    made = Kube(ApiAccess("http://127.0.0.1:9", dict))
    yield made
    await made.close()


@pytest.fixture
def core() -> Core:
    return Core("edge-1", "edge-2").rule(CONFIG_MAPS)


def samples(core: Core, kube: Kube) -> dict[str, float]:
    """``name{label values}`` → value."""
    text = HubMetrics(core.hub.view, kube, lambda: core.now).text().decode()
    return {
        sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_where_everything_stands(core: Core, kube: Kube) -> None:
    """Nodes, objects, what is on its way and for how long, what is given up."""
    core.put("a")
    core.put("b")
    edge = core.connect()
    first, _ = edge.sent()
    core.now = 3.0
    edge.nack(first, code="too_large")
    found = samples(core, kube)
    assert found["fairlead_hub_nodes"] == 2
    assert found["fairlead_hub_nodes_connected"] == 1
    assert found["fairlead_hub_objects_watched"] == 2
    assert found["fairlead_hub_in_flight"] == 1
    assert found["fairlead_hub_pending_objects"] == 1
    assert found["fairlead_hub_pending_oldest_seconds"] == 3.0
    assert found["fairlead_hub_parked_objects"] == 1
    assert found["fairlead_hub_parkings_total{too_large}"] == 1
    assert found["fairlead_hub_status_dirty"] == 1


async def test_what_happened_is_counted(core: Core, kube: Kube) -> None:
    """Acks, deletes, refusals, requests to the API server."""
    one = core.put("a")
    edge = core.connect()
    core.now = 0.2
    edge.ack(*edge.sent())
    core.remove(one)
    edge.ack(*edge.sent())
    core.refused("stranger")
    kube.requests["PATCH"] = 7
    found = samples(core, kube)
    assert (found["fairlead_hub_acks_total"], found["fairlead_hub_removals_total"]) == (1, 1)
    assert found["fairlead_hub_refused_sessions_total{node_unknown}"] == 1
    assert found["fairlead_hub_api_requests_total{PATCH}"] == 7


async def test_the_time_from_change_to_ack_is_a_histogram(core: Core, kube: Kube) -> None:
    """Buckets add up, as Prometheus wants them."""
    for n, seconds in enumerate((0.02, 0.2, 1000.0)):
        core.hub.counts.acked(seconds)
        assert samples(core, kube)["fairlead_hub_delivery_seconds_count"] == n + 1
    found = samples(core, kube)
    assert found["fairlead_hub_delivery_seconds_bucket{0.025}"] == 1
    assert found["fairlead_hub_delivery_seconds_bucket{0.25}"] == 2
    assert found["fairlead_hub_delivery_seconds_bucket{+Inf}"] == 3
    assert found["fairlead_hub_delivery_seconds_sum"] == pytest.approx(1000.22)


async def test_an_edge_that_invents_codes_grows_no_table(core: Core, kube: Kube) -> None:
    """A hostile node must not make the hub's exposition endless."""
    for n in range(CODES_MAX * 3):
        core.put(f"c{n}")
    edge = core.connect()
    for n, header in enumerate(edge.sent()):
        edge.nack(header, code=f"invented-{n}")
    reasons = [name for name in samples(core, kube) if name.startswith("fairlead_hub_parkings_total")]
    assert len(reasons) <= CODES_MAX + 1
    assert "fairlead_hub_parkings_total{other}" in reasons


async def test_no_number_carries_a_name(core: Core, kube: Kube) -> None:
    """Of a node or an object: the exposition does not grow with the fleet, and tells no secrets."""
    core.put("passwords-of-shop")
    edge = core.connect()
    edge.nack(edge.sent()[0])
    text = HubMetrics(core.hub.view, kube, lambda: core.now).text().decode()
    assert "edge-1" not in text and "passwords-of-shop" not in text and "configmaps" not in text


async def test_an_empty_hub_has_all_its_numbers(kube: Kube) -> None:
    """Dashboards need no special case for the first minute."""
    found = samples(Core(listed=False), kube)
    assert found["fairlead_hub_nodes"] == 0
    assert found["fairlead_hub_pending_oldest_seconds"] == 0


async def test_the_certificates_end_is_shown_where_there_is_one(core: Core, kube: Kube) -> None:
    """Asked each time: its file may have been replaced."""
    name = "fairlead_hub_certificate_ends_timestamp_seconds"
    shown = HubMetrics(core.hub.view, kube, lambda: core.now, certificate_ends=lambda: 1.9e9).text().decode()
    assert f"{name} 1.9e+09" in shown
    assert not any(each.startswith(name) for each in samples(core, kube))


class Signing:
    """In place of the service that signs."""

    signer_ends, skew = ("edges", "ab12", 1.9e9), -2.5

    def openings(self) -> tuple[int, int]:
        return 0, 0


async def test_the_signing_authority_is_shown_where_there_is_one(core: Core, kube: Kube) -> None:
    """By its fingerprint, so that two hubs that sign by different ones are seen; and how right the clock is."""
    metrics = HubMetrics(core.hub.view, kube, lambda: core.now)
    assert "signer" not in metrics.text().decode()
    signing: Any = Signing()
    metrics.serves(signing, None, signing)
    shown = metrics.text().decode()
    assert 'fairlead_hub_signer_ends_timestamp_seconds{authority="edges",fingerprint="ab12"} 1.9e+09' in shown
    assert "fairlead_hub_clock_skew_seconds -2.5" in shown
