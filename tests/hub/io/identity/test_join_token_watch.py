"""JoinTokens as the API server has them, and what the hub says of itself in them."""

import asyncio
import contextlib
import secrets
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.joining import join_client
from tests.support.joining.join_cluster import Api, JoinCluster

from fairlead_hub.identity.join_tokens import JoinTokens
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.identity import join_token_watch
from fairlead_hub.io.identity.join_token_watch import JoinTokenWatch
from fairlead_wire.identity import join_token


def _watch(cluster: JoinCluster, step: Any = lambda *_: None) -> JoinTokenWatch:
    api: Any = Api(cluster, step)
    watch = JoinTokenWatch(api, JoinTokens(), seconds_left=lambda: 10.0)

    def deliver(document: dict[str, Any]) -> None:
        watch.on_object(_raw(document))

    cluster.watchers.append(deliver)
    return watch


def _raw(document: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


def _put(cluster: JoinCluster, **spec: Any) -> str:
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    cluster.put(join_client.join_token_object(token, **spec))
    return token.id


@contextlib.asynccontextmanager
async def _filling(watch: JoinTokenWatch):
    task = asyncio.create_task(watch.fill())
    yield
    task.cancel()


async def test_a_token_learns_by_which_authorities_the_hub_is_known():
    """Those there were, those that come, and all again when the pins change."""
    cluster = JoinCluster()
    watch = _watch(cluster)
    first = _put(cluster)
    async with _filling(watch):
        watch.announce(("p1",), "wss://hub")
        await until(lambda: cluster.get("jointokens", first).get("status"))
        second = _put(cluster)
        await until(lambda: cluster.get("jointokens", second).get("status"))
        assert cluster.get("jointokens", second)["status"] == {"pins": ["p1"], "url": "wss://hub"}
        writes = len(cluster.writes)
        watch.announce(("p1",), "wss://hub")
        watch.announce(("p1", "p2"), "wss://hub")
        await until(lambda: all(token.pins == ("p1", "p2") for token in watch.tokens))
        assert len(cluster.writes) == writes + 2


USES = [
    {"node": f"shop-{number}", "keySHA256": "0" * 64, "serial": "a", "time": "2030-01-01T00:00:00Z"}
    for number in (2, 1)
]


def _used(cluster: JoinCluster) -> str:
    """A token as a hub of before left it."""
    id = _put(cluster, pattern="shop-*", uses=5)
    cluster.put({**cluster.get("jointokens", id), "status": {"uses": USES}})
    return id


async def test_names_are_written_in_one_line_also_of_uses_of_before():
    """kubectl shows one item of a list."""
    cluster = JoinCluster()
    watch = _watch(cluster)
    id = _used(cluster)
    async with _filling(watch):
        watch.announce(("p1",), "wss://hub")
        await until(lambda: cluster.get("jointokens", id)["status"].get("usedBy") == "shop-2, shop-1")
        assert cluster.get("jointokens", id)["status"]["uses"] == USES
        document = cluster.get("jointokens", id)
        status = {**document["status"], "uses": [*USES, {**USES[0], "node": "shop-3"}]}
        cluster.put({**document, "status": status})  # by a hub that does not know the field
        await until(lambda: cluster.get("jointokens", id)["status"]["usedBy"] == "shop-2, shop-1, shop-3")


async def test_a_definition_without_the_field_is_asked_once_a_list():
    """It takes the write and leaves the field out: nothing changes, and nothing must be written again and again."""
    cluster = JoinCluster(leaves_out=("usedBy",))
    watch = _watch(cluster)
    ids = {_used(cluster) for _ in range(3)}
    async with _filling(watch):
        watch.announce(("p1",), "wss://hub")
        await until(lambda: all(token.pins for token in watch.tokens))
        writes = len(cluster.writes)
        cluster.leaves_out = ()
        last = _put(cluster)
        await until(lambda: all(token.pins for token in watch.tokens))
        assert len(cluster.writes) == writes + 1
        watch.on_listed({*ids, last}, "")
        await until(lambda: all(token.used_by == "shop-2, shop-1" for token in watch.tokens if token.id in ids))


async def test_names_beside_a_use_that_is_written_meanwhile_are_all():
    """What was read is old by then: the write is refused, and made again from what stands there."""
    met: list[str] = []

    def step(at: str, path: str) -> None:
        if at == "asked" and not met:
            met.append(path)
            document = cluster.get("jointokens", id)
            status = {**document["status"], "uses": [*USES, {**USES[0], "node": "shop-3"}]}
            cluster.put({**document, "status": status})

    cluster = JoinCluster()
    watch = _watch(cluster, step)
    id = _used(cluster)
    async with _filling(watch):
        watch.announce(("p1",), "wss://hub")
        await until(lambda: cluster.get("jointokens", id)["status"].get("usedBy") == "shop-2, shop-1, shop-3")


async def test_what_cannot_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    """Until it is, or the token is gone."""
    monkeypatch.setattr(join_token_watch, "RETRY_SECONDS", 0.0)
    errors: list[Exception] = [ApiUnavailable("away"), ApiRefused(403, "forbidden")]

    def step(at: str, path: str) -> None:
        if at == "asked" and errors:
            raise errors.pop(0)

    cluster = JoinCluster()
    watch = _watch(cluster, step)
    id = _put(cluster)
    async with _filling(watch):
        watch.announce(("p1",), "")
        await until(lambda: cluster.get("jointokens", id).get("status"))
        assert not errors
        errors.append(ApiRefused(404, "gone"))
        _put(cluster)
        await until(lambda: not errors)


async def test_an_older_version_never_replaces_a_newer_one():
    """The watch brings what the answer to our own write said before."""
    cluster = JoinCluster()
    watch = _watch(cluster)
    id = _put(cluster)
    old = cluster.get("jointokens", id)
    newer = {**old, "metadata": {**old["metadata"], "resourceVersion": "10"}}
    watch.put(join_token_watch.read(msgspec.json.encode(newer)))
    watch.on_object(_raw(old))
    token = watch.tokens.of(id)
    assert token is not None and token.version == "10"


async def test_waiting_for_a_newer_version(monkeypatch: pytest.MonkeyPatch):
    """It comes, or it does not in time."""
    cluster = JoinCluster()
    watch = _watch(cluster)
    id = _put(cluster)
    waiting = asyncio.create_task(watch.newer(id, "1"))
    await asyncio.sleep(0)
    cluster.write("PATCH", f"{join_token_watch.ROOT}/{id}/status", {"status": {"url": "x"}})
    assert await waiting
    monkeypatch.setattr(join_token_watch, "CHANGE_SECONDS", 0.01)
    assert not await watch.newer(id, "2")
    watch.on_gone(_raw(cluster.get("jointokens", id)))
    assert await watch.newer(id, "2") and watch.tokens.of(id) is None


async def test_a_token_that_cannot_be_read_admits_none(caplog: pytest.LogCaptureFixture):
    """Nor does what it was before."""
    cluster = JoinCluster()
    watch = _watch(cluster)
    id = _put(cluster)
    cluster.write("PATCH", f"{join_token_watch.ROOT}/{id}", {"spec": {"expires": "never"}})
    assert watch.tokens.of(id) is None
    watch.on_listed({id}, "5")
    watch.on_lost(False)
    watch.on_unlistable("forbidden", served=True)
    assert watch.tokens.listed
