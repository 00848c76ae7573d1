"""The table of the local API's calls: what is served is described, to those with a token and without."""

from __future__ import annotations

from pathlib import Path
from random import Random

import openapi_spec_validator
import pytest
from aiohttp import web
from tests.support.edges.edge_api import serving
from tests.support.edges.upstream import FakeHub, open_upstream

from fairlead_edge.io.local_api import operations, publish_api, status_api
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.memory_metastore import MemoryMetastore

DOCUMENT = operations.document()


@pytest.mark.slow
def test_it_is_openapi_3_1() -> None:
    openapi_spec_validator.validate(DOCUMENT)


async def test_each_route_is_described_and_no_other(tmp_path: Path) -> None:
    upstream = open_upstream(tmp_path / "outbox.db", FakeHub())
    async with serving() as api:
        assert api.client.app is not None
        found = {(route.method, route.resource.canonical) for route in api.client.app.router.routes() if route.resource}
    app = web.Application()
    publish_api.add_routes(app, upstream)
    store = MemoryMetastore()
    status_api.add_routes(app, StatusSender(store.statuses, store.log, Random(1)), lambda: 0.0)
    found |= {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource}
    await upstream.outbox.close()
    trees = {("*", path) for root in operations.OBJECT_TREES for path in (root, root + "/{rest}")}
    assert trees <= found
    served = {each for each in found - trees if each[0] != "HEAD"}
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    below = {(each.method, each.path) for each in operations.OBJECT_PATHS}
    assert below <= described and all(path.startswith(operations.OBJECT_TREES) for _, path in below)
    assert described - below == served


@pytest.mark.slow
async def test_it_needs_no_token_and_everything_else_does() -> None:
    """Where one is needed at all: a program can be written before its token is there."""
    async with serving(required=True) as api:
        assert await api.get("/openapi.json") == DOCUMENT
        for each in operations.OPERATIONS:
            status, _ = await api.ask(each.path.replace("{module}", "m").replace("{input}", "i"), each.method)
            assert each.is_open == (status == 200), each.path
