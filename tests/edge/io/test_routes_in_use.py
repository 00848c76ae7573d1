"""The routes held become the router in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.edges.held import config_map, held, put

from fairlead_edge import node_routes
from fairlead_edge.io.objects.sqlite_metastore import FILE_NAME, SqliteMetastore
from fairlead_edge.io.routes_in_use import RoutesCopy, RoutesInUse
from fairlead_edge.objects.metastore import Put
from fairlead_edge.outbox.router import Router


def edge_routes(name: str, routes: dict[str, str]) -> Put:
    document: dict[str, Any] = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "EdgeRoutes",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "schemaVersion": "1.1",
            "routes": routes,
            "storeAndForwardConfiguration": {"timeToLiveSecs": 60},
        },
    }
    return put(document, "edgeroutes")


class Bench:
    """A store in a folder, and what is put in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: list[tuple[Router | None, str]] = []
        self.changes = 0

    def open(self) -> RoutesInUse:
        self.store = SqliteMetastore(
            self.folder, node="edge-1", bytes_max=1 << 24, wall_milliseconds=1, usable=node_routes.is_usable
        )
        copy = RoutesCopy(self.folder / "routes.copy")
        routes = RoutesInUse(
            "edge-1", self.store, copy, use=lambda router, why: self.used.append((router, why)), changed=self._changed
        )
        self.store.log.listen(routes.follow)
        return routes

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.store.close()


async def test_a_change_puts_another_router_in_use(bench: Bench) -> None:
    routes = bench.open()
    await routes.load()
    assert bench.used == [(None, "")] and bench.changes == 0
    up = "FROM /messages/* INTO $upstream"
    await bench.store.apply([edge_routes("a", {"good": up, "bad": "FROM nowhere"})], now=0)
    router, why = bench.used[-1]
    assert router is not None and why == "" and bench.changes == 1
    assert routes.statuses["a"].accepted == ["good"] and len(routes.statuses["a"].errors) == 1


async def test_routes_survive_the_loss_of_the_store(bench: Bench) -> None:
    routes = bench.open()
    await routes.load()
    await bench.store.apply([edge_routes("a", {"all": "FROM /messages/* INTO $upstream"})], now=0)
    await bench.store.close()
    connection = apsw.Connection(str(bench.folder / FILE_NAME))
    await asyncio.to_thread(connection.execute, "UPDATE objects SET content = x'00'")
    connection.close()
    bench.used.clear()
    again = bench.open()
    assert bench.store.lacking
    await again.load()
    [(router, _)] = bench.used
    assert router is not None and list(again.statuses) == ["a"]


# ---- the copy of the routes: whole, or nothing ----------------------------------------------------


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    copy = RoutesCopy(tmp_path / "routes.copy")
    assert copy.read() == []
    objects = [held(config_map(name)) for name in ("a", "b")]
    copy.write(objects[:1])
    copy.write(objects)
    assert RoutesCopy(tmp_path / "routes.copy").read() == objects
    content = (tmp_path / "routes.copy").read_bytes()
    for at in range(0, len(content), 7):
        (tmp_path / "routes.copy").write_bytes(content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :])
        assert copy.read() == []


def test_no_room_is_no_error(tmp_path: Path) -> None:
    RoutesCopy(tmp_path / "missing" / "routes.copy").write([])
