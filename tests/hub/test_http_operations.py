"""The table of the hub's calls: what is served is described, and answers are what their structs say."""

from __future__ import annotations

from typing import Any

import msgspec
import openapi_spec_validator
import pytest
from aiohttp import web
from tests.hub.io.inputs.test_access_review import Cluster
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub import http_operations
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.http_operations import Explained, NodeDetail, Nodes
from fairlead_hub.io import http
from fairlead_hub.io.inputs.access_review import AccessReview
from fairlead_hub.io.inputs.inputs_api import InputsApi

DOCUMENT = http_operations.document()


@pytest.mark.slow
def test_it_is_openapi_3_1() -> None:
    """As a validator of others says."""
    openapi_spec_validator.validate(DOCUMENT)


def test_each_route_is_described_and_no_other() -> None:
    """By method and path."""
    app, core = web.Application(), Core("edge-1")
    nodes_api = http.NodesApi(core.hub.view, WatchHealth({"nodes"}), lambda: core.now)
    nodes_api.add_to(app)
    InputsApi(core.hub, AccessReview(Cluster(), is_open=True, clock=lambda: core.now)).add_to(app)
    http.HubHealth(nodes_api.stale).add_to(app, lambda: b"")
    served = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == served


@pytest.fixture
def core() -> Core:
    """A node that is connected and holds one object, misses one, and has refused one; and one that is away."""
    core = Core("edge-1").rule(CONFIG_MAPS)
    core.node("edge-0")
    for name in ("held", "missing", "refused"):
        core.put(name)
    edge = core.connect()
    first, second, _ = edge.sent()
    edge.ack(first)
    edge.nack(second, code="too_large", reason="over the limit")
    core.now += 1.0
    return core


def read(value: Any, shape: type[msgspec.Struct]) -> None:
    """As JSON; a field that the struct does not name is one that the document does not show."""
    decoded = msgspec.json.decode(msgspec.json.encode(value), type=shape)
    known: dict[str, Any] = msgspec.to_builtins(decoded)
    assert set(value) <= {field.encode_name for field in msgspec.structs.fields(shape)}, "put it into http_operations"
    for key, each in value.items():
        if isinstance(each, list) and each and isinstance(each[0], dict):
            assert set(each[0]) <= set(known[key][0]), f"{key}: put it into http_operations"


def test_answers_have_the_fields_of_the_document(core: Core) -> None:
    """Each, and no other: a change here is a change of the contract."""
    freshness = WatchHealth({"nodes"})
    freshness.stale("nodes", "answered 503", core.now)
    everything = {
        "hub": core.hub.name,
        "fence": core.hub.fence,
        **core.hub.view.stale(freshness, core.now),
        "nodes": core.hub.view.nodes(core.now),
        "unreadable": core.hub.view.unreadable(),
        "troubled": core.hub.view.troubled(),
    }
    read(everything, Nodes)
    for name in ("edge-0", "edge-1"):
        read(core.hub.view.node(name, core.now), NodeDetail)
    for name in ("held", "missing", "refused", "nothing"):
        read(core.hub.view.explained("edge-1", "ConfigMap", "shop", name, core.now), Explained)
