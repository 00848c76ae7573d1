"""kopf beside the hub: it asks for verdicts, touches nothing, and ends when it is told."""

from __future__ import annotations

import asyncio
import time

from tests.support.cluster import Cluster
from tests.support.hub import sync_rule

from fairlead_hub.io import operator
from fairlead_hub.io.kube import access


class Asked:
    """Who was asked about."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()

    def ask(self, collection: str, name: str) -> None:
        self.names.add((collection, name))


async def test_a_changed_rule_asks_for_a_verdict_and_stays_untouched(defined: Cluster) -> None:
    """No finalizer, no annotation: a rule can be deleted while no hub runs."""
    defined.apply(sync_rule("for-kopf", {"apiVersion": "v1", "kind": "ConfigMap"}))
    asked = Asked()
    task = asyncio.create_task(operator.run(access(str(defined.kubeconfig)), asked))  # type: ignore[arg-type]
    ends = time.monotonic() + 30
    while ("syncrules", "for-kopf") not in asked.names:
        assert time.monotonic() < ends
        await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = defined.get("/apis/fairlead.dev/v1alpha1/syncrules/for-kopf")["metadata"]
    assert "finalizers" not in found
    assert set(found.get("annotations", {})) <= {"kubectl.kubernetes.io/last-applied-configuration"}
    defined.kubectl("delete", "syncrule", "for-kopf")
