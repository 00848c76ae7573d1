"""The Kubernetes-style read API, asked over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientError
from tests.support.edges.edge_api import TOKEN, Api, event, serving
from tests.support.edges.held import config_map, put

from fairlead_edge.io.local_api import objects_api
from fairlead_edge.objects.metastore import ObjectChunk, Remove
from fairlead_wire.objects import resource

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving() as found:
        yield found


async def test_an_object_is_served_under_its_path(api: Api) -> None:
    await api.hold(put(config_map("prices"), version="4711"))
    found = await api.get("/api/v1/namespaces/shop/configmaps/prices")
    assert found["metadata"]["resourceVersion"] == "1001"
    assert found["metadata"]["annotations"] == {
        "fairlead.dev/resource-version": "4711",
        "fairlead.dev/age-seconds": "7",
    }


async def test_lists_by_namespace_of_all_namespaces_and_cluster_scoped(api: Api) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1"}}
    await api.hold(put(config_map("a")), put(config_map("b", namespace="bar")), put(node, "nodes"))
    assert await api.names("/api/v1/namespaces/shop/configmaps") == ["a"]
    assert await api.names("/api/v1/configmaps") == ["b", "a"]
    found = await api.get("/api/v1/nodes")
    assert (found["kind"], found["metadata"]["resourceVersion"]) == ("NodeList", "1003")
    assert [item["metadata"]["name"] for item in found["items"]] == ["edge-1"]
    assert (await api.get("/api/v1/nodes/edge-1"))["kind"] == "Node"


async def test_custom_resources_are_served_as_they_came(api: Api) -> None:
    till = {"apiVersion": "shop.example/v2", "kind": "Till", "metadata": {"name": "status", "namespace": "node"}}
    await api.hold(put(till, "tills"))
    assert await api.names("/apis/shop.example/v2/namespaces/node/tills") == ["status"]
    assert (await api.get("/apis/shop.example/v2/namespaces/node/tills/status"))["kind"] == "Till"
    [resource] = (await api.get("/apis/shop.example/v2"))["resources"]
    assert (resource["name"], resource["kind"], resource["namespaced"]) == ("tills", "Till", True)
    assert "shop.example" in [group["name"] for group in (await api.get("/apis"))["groups"]]
    assert (await api.get("/apis/shop.example"))["preferredVersion"]["version"] == "v2"
    for path in ("/apis/shop.example/v1/tills", "/apis/shop.example/v1"):
        assert (await api.ask(path))[0] == 404


async def test_watch_and_list_agree_when_the_same_object_comes_at_another_version(api: Api) -> None:
    def till(version: str) -> dict[str, object]:
        return {"apiVersion": f"shop.io/{version}", "kind": "Till", "metadata": {"name": "a", "namespace": "shop"}}

    await api.hold(put(till("v1"), "tills"))
    start = (await api.get("/apis/shop.io/v1/tills"))["metadata"]["resourceVersion"]
    await api.hold(put(till("v2"), "tills"))
    for version, type, names in (("v1", "DELETED", []), ("v2", "ADDED", ["a"])):
        path = f"/apis/shop.io/{version}/tills"
        assert await api.names(path) == names
        shown = await event(await api.watch(f"{path}?watch=true&resourceVersion={start}&timeoutSeconds=30"))
        assert (shown["type"], shown["object"]["apiVersion"]) == (type, f"shop.io/{version}")
    assert (await api.ask("/apis/shop.io/v1/namespaces/shop/tills/a"))[0] == 404


async def test_selectors_and_pages(api: Api) -> None:
    for number in range(5):
        await api.hold(put(config_map(f"n-{number}", labels={"odd": str(number % 2)})))
    path = "/api/v1/namespaces/shop/configmaps"
    assert await api.names(f"{path}?labelSelector=odd%3D1") == ["n-1", "n-3"]
    assert await api.names(f"{path}?fieldSelector=metadata.name%3Dn-4") == ["n-4"]
    first = await api.get(f"{path}?limit=3")
    assert first["metadata"]["remainingItemCount"] == 2
    rest = await api.get(f"{path}?limit=3&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["n-3", "n-4"]
    assert "continue" not in rest["metadata"]


async def test_pages_are_of_one_moment(api: Api) -> None:
    for name in "abcd":
        await api.hold(put(config_map(name)))
    path = "/api/v1/configmaps?limit=2"
    first = await api.get(path)
    await api.hold(put(config_map("aa")), put(config_map("bb")))
    second = await api.get(f"{path}&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        ("/api/v1/namespaces/shop/configmaps/none", 404, "NotFound"),
        ("/api/v1/widgets", 404, "NotFound"),
        ("/api/v7/pods", 404, "NotFound"),
        ("/api/v1/namespaces/shop/nodes", 404, "NotFound"),
        ("/api/v1/namespaces/shop/pods/a/log", 404, "NotFound"),
        ("/apis/unknown/v1", 404, "NotFound"),
        ("/apis/unknown", 404, "NotFound"),
        ("/api//pods", 404, "NotFound"),
        ("/api/v1/configmaps?labelSelector=a+in", 400, "BadRequest"),
        ("/api/v1/configmaps?fieldSelector=spec.x%3D1", 400, "BadRequest"),
        ("/api/v1/configmaps?limit=x", 400, "BadRequest"),
        ("/api/v1/configmaps?continue=nonsense", 400, "BadRequest"),
        ("/api/v1/configmaps?watch=1&resourceVersion=abc", 400, "BadRequest"),
        ("/api/v1/configmaps?watch=1&resourceVersion=1", 410, "Expired"),
        ("/api/v1/configmaps?watch=1&resourceVersion=99999", 410, "Expired"),
        ("/api/v1/configmaps?resourceVersion=1&resourceVersionMatch=Exact", 410, "Expired"),
    ],
)
async def test_refusals_are_status_objects(api: Api, path: str, code: int, reason: str) -> None:
    status, body = await api.ask(path)
    assert (status, body["kind"], body["code"], body["reason"]) == (code, "Status", code, reason)
    assert body["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_writes_are_refused(api: Api, method: str) -> None:
    status, body = await api.ask("/api/v1/namespaces/shop/configmaps/a", method)
    assert (status, body["reason"]) == (405, "MethodNotAllowed")


async def test_secrets_need_the_token_always(api: Api) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "type": "Opaque"}
    await api.hold(put(secret, "secrets"))
    for path in ("/api/v1/secrets", "/api/v1/namespaces/shop/secrets/s", "/api/v1/secrets?watch=true"):
        assert (await api.ask(path))[0] == 401
        assert (await api.ask(path, Authorization="Bearer wrong"))[0] == 401
    assert await api.names("/api/v1/secrets", Authorization=f"Bearer {TOKEN}") == ["s"]


async def test_a_table_is_made_on_request(api: Api) -> None:
    await api.hold(put(config_map("a")))
    found = await api.get("/api/v1/configmaps", Accept=TABLE)
    assert (found["kind"], found["rows"][0]["cells"][:2]) == ("Table", ["a", 1])
    assert found["metadata"]["resourceVersion"] == "1001"
    single = await api.get("/api/v1/namespaces/shop/configmaps/a", Accept=TABLE)
    assert (single["kind"], len(single["rows"])) == ("Table", 1)
    for accept in ("application/json", "*/*", "application/vnd.kubernetes.protobuf, application/json", ""):
        assert (await api.get("/api/v1/configmaps", Accept=accept))["kind"] == "ConfigMapList"


@pytest.mark.parametrize(
    "accept", ["application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Table;v=v1beta1;g=meta.k8s.io"]
)
async def test_what_cannot_be_served_is_said(api: Api, accept: str) -> None:
    """A client that reads only protobuf must not be given JSON to choke on."""
    status, body = await api.ask("/api/v1/configmaps", Accept=accept)
    assert (status, body["reason"]) == (406, "NotAcceptable")


async def test_a_new_node_answers_with_empty_lists(api: Api) -> None:
    assert await api.names("/api/v1/pods") == []
    assert "configmaps" in [each["name"] for each in (await api.get("/api/v1"))["resources"]]
    assert (await api.get("/api"))["versions"] == ["v1"]
    assert (await api.get("/version"))["gitVersion"].endswith("fairlead-edge.1.2")


async def test_openapi_documents_are_cached_by_their_hash(api: Api) -> None:
    """The index is asked for each time; what its URLs name never changes."""
    await api.hold(put(config_map("a")))
    url = (await api.get("/openapi/v3"))["paths"]["api/v1"]["serverRelativeURL"]
    answer = await api.client.get(url)
    assert answer.status == 200 and "immutable" in answer.headers["Cache-Control"]
    assert "/api/v1/namespaces/{namespace}/configmaps" in (await answer.json())["paths"]
    index = await api.client.get("/openapi/v3")
    assert "no-cache" in index.headers["Cache-Control"]
    for path, tag in (("/openapi/v3", index.headers["ETag"]), (url, answer.headers["ETag"])):
        again = await api.client.get(path, headers={"If-None-Match": tag})
        assert (again.status, await again.read()) == (304, b"")
    till = {"apiVersion": "shop.example/v2", "kind": "Till", "metadata": {"name": "a", "namespace": "shop"}}
    await api.hold(put(till, "tills"))
    assert "apis/shop.example/v2" in (await api.get("/openapi/v3"))["paths"]
    stale = await api.client.get("/openapi/v3/api/v1?hash=ANOTHER")
    assert stale.status == 200 and "no-cache" in stale.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/openapi/v3/apis/none/v1", "/openapi/v3/api/v2", "/openapi/v2"])
async def test_openapi_of_what_is_not_served_is_a_status(api: Api, path: str) -> None:
    """Old kubectl asks for v2, and prints what it is told."""
    status, body = await api.ask(path)
    assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")


# ---- long lists, in chunks of the store --------------------------------------------------------------------------

MAPS = "/api/v1/configmaps"


@pytest.fixture
async def long(api: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """Seven ConfigMaps, and each a chunk of its own."""
    monkeypatch.setattr(objects_api, "CHUNK_BYTES", 1)
    await api.hold(*(put(config_map(f"cm-{number}", labels={"odd": str(number % 2)})) for number in range(7)))
    return api


def meanwhile(api: Api, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]) -> None:
    """Do this once, after the second chunk was read."""
    read, seen = api.store.select_chunk, []

    async def select_chunk(*arguments: Any, **more: Any) -> ObjectChunk:
        chunk = await read(*arguments, **more)
        seen.append(chunk)
        if len(seen) == 2:
            await act()
        return chunk

    monkeypatch.setattr(api.store, "select_chunk", select_chunk)


async def test_a_list_of_many_chunks_is_the_list(long: Api) -> None:
    found = await long.get(MAPS)
    assert found["kind"] == "ConfigMapList" and found["metadata"] == {"resourceVersion": "1007"}
    assert [each["metadata"]["name"] for each in found["items"]] == [f"cm-{number}" for number in range(7)]
    assert await long.names(f"{MAPS}?labelSelector=odd=1") == ["cm-1", "cm-3", "cm-5"]
    assert await long.names(f"{MAPS}?labelSelector=odd=2") == []
    rows = await long.get(MAPS, Accept=TABLE)
    assert rows["kind"] == "Table" and [row["cells"][0] for row in rows["rows"]] == [f"cm-{n}" for n in range(7)]
    assert rows["columnDefinitions"][0]["name"] == "Name" and rows["metadata"]["resourceVersion"] == "1007"
    answer = await long.client.head(MAPS)
    assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("selector", ["", "&labelSelector=odd"])
async def test_pages_of_many_chunks_continue(long: Api, selector: str) -> None:
    names, left, token = [], [], ""
    while True:
        page = await long.get(f"{MAPS}?limit=3{selector}" + (f"&continue={token}" if token else ""))
        names.append([each["metadata"]["name"] for each in page["items"]])
        left.append(page["metadata"].get("remainingItemCount"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == [["cm-0", "cm-1", "cm-2"], ["cm-3", "cm-4", "cm-5"], ["cm-6"]]
    assert left == ([None] * 3 if selector else [4, 1, None])


async def test_a_long_list_is_true_at_one_version(long: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        await long.hold(
            put(config_map("cm-55")),
            put(config_map("cm-0", labels={"late": "yes"})),
            put(config_map("cm-4", labels={"late": "yes"})),
            Remove(resource=resource.parse("api/v1/namespaces/shop/configmaps/cm-6"), uid="uid-cm-6"),
        )

    meanwhile(long, monkeypatch, act)
    found = await long.get(MAPS)
    assert [each["metadata"]["name"] for each in found["items"]] == [f"cm-{number}" for number in range(7)]
    assert all("late" not in each["metadata"]["labels"] for each in found["items"])
    watch = await long.watch(f"{MAPS}?watch=true&resourceVersion={found['metadata']['resourceVersion']}")
    seen = [await event(watch) for _ in range(4)]
    assert [each["object"]["metadata"]["name"] for each in seen] == ["cm-55", "cm-0", "cm-4", "cm-6"]
    watch.close()


async def test_a_long_list_whose_version_is_lost_ends_early(long: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client must not take what came for all of it; a watch that begins with a list says 410."""

    async def act() -> None:
        long.store.log.lose(long.store.log.version + 1000)

    meanwhile(long, monkeypatch, act)
    with pytest.raises(ClientError):
        await long.ask(MAPS)
    meanwhile(long, monkeypatch, act)
    watch = await long.watch(f"{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=60")
    shown = [await event(watch)]
    while shown[-1]["type"] == "ADDED":
        shown.append(await event(watch))
    assert (shown[-1]["type"], shown[-1]["object"]["code"]) == ("ERROR", 410) and len(shown) < 7
    assert await event(watch) == {}
