"""What the charts render: lint, snapshots, one server-side dry run for every object of every combination."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.kube.charts import CHARTS, COMBINATIONS, helm_with, objects, snapshot
from tests.support.kube.cluster import Cluster

SNAPSHOTS = Path(__file__).parent / "snapshots"
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
every_combination = pytest.mark.parametrize("name", COMBINATIONS)


@every_combination
def test_lint_finds_nothing(name: str) -> None:
    """helm lint --strict passes with every combination."""
    chart, values = COMBINATIONS[name]
    helm_with(values, "lint", "--strict", str(CHARTS / chart))


@every_combination
def test_rendered_as_last_seen(name: str) -> None:
    """A change of what a chart renders shows in the snapshot's diff; FAIRLEAD_REWRITE=1 takes it over."""
    path = SNAPSHOTS / f"{name}.yaml"
    if os.environ.get("FAIRLEAD_REWRITE"):
        path.write_text(snapshot(name))
    assert snapshot(name) == path.read_text(), f"{path.name} differs; look at it, then FAIRLEAD_REWRITE=1"


@every_combination
def test_api_server_takes_every_object(name: str, cluster: Cluster, namespace: str) -> None:
    """The real API server accepts each object, strictly: an unknown field would be an error.

    Those of cert-manager where its definitions are: test_cert_manager.py.
    """
    known = [each for each in objects(name) if not each["apiVersion"].startswith("cert-manager.io/")]
    said = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": known}),
    )  # fmt: skip
    assert said.count("serverside-applied") == len(known)


def test_no_two_objects_share_a_name() -> None:
    """Within a combination every object has its own kind and name."""
    for name in COMBINATIONS:
        seen = [(each["kind"], each["metadata"]["name"]) for each in objects(name)]
        assert len(seen) == len(set(seen)), name
