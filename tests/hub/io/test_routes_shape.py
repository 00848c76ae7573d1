"""One shape of EdgeRoutes at the API server, in the hub's model and at the agent, over generated manifests."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.edges import route_manifests
from tests.support.kube.cluster import Cluster

from fairlead_edge.outbox import manifest
from fairlead_hub.cluster.custom_resources.route_specs import EdgeRoutesSpec
from fairlead_wire.validation import route_manifest
from fairlead_wire.validation.model import MODELS

PATH = "/apis/fairlead.dev/v1alpha1/edgeroutes?dryRun=All"
ATTEMPTS = 50


class Server:
    """Asks what would be stored, over one connection."""

    def __init__(self, cluster: Cluster) -> None:
        self._token = cluster.token
        at = urllib.parse.urlsplit(cluster.server)
        context = ssl.create_default_context(cafile=str(cluster.ca))
        self._connection = http.client.HTTPSConnection(str(at.hostname), at.port, context=context, timeout=120)

    def stored(self, spec: Any) -> dict[str, Any] | str:
        """The object as the API server would keep it, or why it would not."""
        body = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "EdgeRoutes",
            "metadata": {"generateName": "r"},
            "spec": spec,
        }
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        for _ in range(ATTEMPTS):
            self._connection.request("POST", PATH, json.dumps(body), headers)
            answer = self._connection.getresponse()
            content = answer.read()
            if answer.status != 429 and answer.status < 500:  # a busy one says so, and is asked again
                break
        found: dict[str, Any] = json.loads(content)
        assert answer.status in (201, 400, 422), found
        return found if answer.status == 201 else str(found["message"])

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def server(defined: Cluster) -> Iterator[Server]:
    made = Server(defined)
    yield made
    made.close()


def compare(server: Server, specs: Iterator[dict[str, Any]]) -> Counter[str]:
    """Judge each by all three, and say what came of it."""
    outcomes: Counter[str] = Counter()
    for spec in specs:
        stored = server.stored(spec)
        if isinstance(stored, str):
            outcomes["refused"] += 1
            continue
        outcomes["taken"] += 1
        assert not MODELS.find(stored["spec"], EdgeRoutesSpec), spec
        parsed = manifest.parse(json.dumps(stored).encode())
        assert [each for each in parsed.quarantined if each.line is None] == [], spec  # the language has places
        judged = {each.name for each in parsed.routes} | {each.name for each in parsed.quarantined}
        assert judged == {name for name, route in stored["spec"]["routes"].items() if route is not None}, spec
    return outcomes


def test_what_the_api_server_takes_the_agent_refuses_for_no_reason_of_shape(server: Server) -> None:
    """A sample; `make verify` compares thousands."""
    outcomes = compare(server, route_manifests.specs(1, 150))
    assert min(outcomes["taken"], outcomes["refused"]) > 20, outcomes


@pytest.mark.verify
def test_three_judges_of_thousands_of_manifests(server: Server) -> None:
    """Nothing of it is a matter of chance: the same manifests at every run."""
    outcomes = compare(server, route_manifests.specs(2, 4000))
    assert min(outcomes["taken"], outcomes["refused"]) > 500, outcomes


@pytest.mark.parametrize("priority", [1.0, 1e0])
def test_a_number_that_is_whole_is_stored_as_a_whole_number(server: Server, priority: float) -> None:
    """So that the agent, which reads no 1.0 as a priority, is never given one."""
    route = {"route": route_manifests.UP, "priority": priority}
    stored = server.stored({"schemaVersion": "1.1", "routes": {"r": route}, "storeAndForwardConfiguration": {}})
    assert isinstance(stored, dict)
    [found] = manifest.parse(json.dumps(stored).encode()).routes
    assert found.priority == 1


def test_as_many_routes_as_the_agent_takes_and_no_more(server: Server) -> None:
    """One limit on both sides."""
    for count, taken in ((route_manifest.ROUTES_MAX, True), (route_manifest.ROUTES_MAX + 1, False)):
        routes = {f"r{number}": route_manifests.UP for number in range(count)}
        stored = server.stored({"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": {}})
        assert isinstance(stored, dict) is taken
