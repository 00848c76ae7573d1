"""A change followed in a real hub's console, while the same spans go to a collector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.hubs.hub import HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.kube.cluster import Cluster
from tests.support.otlp import Collector


@pytest.mark.kube
@pytest.mark.verify
async def test_a_change_is_seen_from_its_watch_to_its_record(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """One trace in the console; its id, found there, is the collector's; the link leads to the reader's backend."""
    link = "http://traces.example/trace/{trace_id}"
    with Collector() as collector:

        def sent(trace_id: str) -> set[str]:
            return {span.name for span in collector.spans if span.trace_id == trace_id}

        toml = f'[traces]\nendpoint = "{collector.url}"\nratio = 1\nlink = "{link}"\n[record]\nflush_seconds = 0.2\n'
        hub = HubProcess(kube, tmp_path, toml=toml).start()
        try:
            kube.apply(edge_node("edge-1"))
            kube.apply(sync_rule("maps", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
            async with fleet(hub, "edge-1"):
                kube.apply(config_map("prices", namespace, v="1"))
                page = f"/console/traces?q={namespace}+configmaps/prices"
                await until("the change is recorded", lambda: {"observe", "deliver", "record"} <= seen(hub.text(page)))
                [trace_id] = re.findall(r'<code class="trace-id">([0-9a-f]{32})</code>', hub.text(page))
                assert f'href="{link.replace("{trace_id}", trace_id)}"' in hub.text(page)
                assert f"/console/traces?q={trace_id}" in hub.text("/console/nodes/edge-1")
                # Not at its end: a program waits for 2 s then, and a busy machine may need longer.
                await until("the collector has them", lambda: {"observe", "deliver", "record"} <= sent(trace_id))
        finally:
            assert hub.stop() == 0


def seen(page: str) -> set[str]:
    """What was done, on this page."""
    return set(re.findall(r'<span class="depth-\d">([a-z ]+)</span>', page))
