"""The hub's numbers in Prometheus' words."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.support.hub_core import CONFIG_MAPS, Core

from fairlead_hub.io.kube import Access, Kube
from fairlead_hub.io.metrics import HubMetrics


async def test_they_move_and_carry_no_names() -> None:
    """An ack, a retry and a refusal are seen; no label holds a node's or an object's name."""
    core = Core("edge-1")
    core.rule(CONFIG_MAPS)
    core.put("prices")
    core.put("poison")
    edge = core.connect()
    good, bad = edge.sent()
    edge.ack(good)
    edge.nack(bad, "too_sour")
    core.refused("stranger")
    client = Kube(Access("http://127.0.0.1:1", dict))
    text = HubMetrics(core.hub, client, lambda: core.now).text().decode()
    await client.close()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("fairlead_hub_acks_total",)] == 1
    assert found[("fairlead_hub_parked_objects",)] == 1
    assert found[("fairlead_hub_parkings_total", "too_sour")] == 1
    assert found[("fairlead_hub_nodes_connected",)] == 1
    assert found[("fairlead_hub_delivery_seconds_bucket", "+Inf")] == 1
    assert found[("fairlead_hub_refused_sessions_total", "node_unknown")] == 1
    assert not any("edge-1" in text or "prices" in text for key in found for text in key[1:])
