"""``PATCH …/status`` over HTTP, as programs send it, and as they should not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.edges.edge_api import TOKEN, event
from tests.support.edges.held import config_map, put

from fairlead_edge.io.local_api import server, status_api
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.io.local_api.objects_api import ObjectsApi
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.statuses.patch import APPLY, BODY_BYTES_MAX, MERGE
from fairlead_wire import message
from fairlead_wire.objects import digest

PATH = "/api/v1/namespaces/shop/configmaps/a"
RULES = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", namespaces=["shop"], allowed=True)])


class Api:
    def __init__(self, client: TestClient[web.Request, web.Application], store: MemoryMetastore) -> None:
        self.client, self.store = client, store

    async def patch(self, status: Any, path: str = f"{PATH}/status", kind: str = MERGE, **body: Any) -> tuple[int, Any]:
        return await self.send(path, json.dumps({"status": status, **body}), {"Content-Type": kind})

    async def send(self, path: str, content: Any, headers: dict[str, str], method: str = "PATCH") -> tuple[int, Any]:
        answer = await self.client.request(method, path, data=content, headers=headers)
        return answer.status, json.loads(await answer.text())

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status == 200, await answer.text()
        return await answer.json()


@contextlib.asynccontextmanager
async def serving(*, required: bool = False) -> AsyncIterator[Api]:
    store = MemoryMetastore(version=1000)
    await store.apply([put(config_map("a")), put(config_map("b", namespace="other"))], now=0.0)
    await store.statuses.replace_rules(RULES, digest.content_digest(RULES))
    sender = StatusSender(store.statuses, store.log, Random(1))
    guard = AccessGuard(TOKEN, required=required)
    objects = ObjectsApi(
        store, agent="1", age_of=lambda _: 7.0, secrets_allowed=guard.knows, statuses=store.statuses, now=lambda: 5.0
    )

    async def nothing() -> Any:
        return {}

    parts = [objects.add_routes, lambda app: status_api.add_routes(app, sender, lambda: 6.0)]
    app = server.application(guard, status=nothing, metrics=nothing, unready=lambda: "", parts=parts)
    async with TestClient(TestServer(app)) as client:
        yield Api(client, store)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving() as found:
        yield found


async def test_what_is_patched_is_read_and_watched(api: Api) -> None:
    before = (await api.get(PATH))["metadata"]["resourceVersion"]
    watch = await api.client.get(f"/api/v1/configmaps?watch=true&resourceVersion={before}")
    status, body = await api.patch({"phase": "Ready"})
    assert (status, body["status"], body["data"]) == (200, {"phase": "Ready"}, {"k": "v"})
    assert body["metadata"]["annotations"]["fairlead.dev/status-report"] == "waiting"
    assert await api.get(PATH) == await api.get(f"{PATH}/status") == body
    seen: dict[str, Any] = {}
    while seen.get("object", {}).get("status") is None:
        seen = await event(watch)
    assert (seen["type"], seen["object"]["status"]) == ("MODIFIED", {"phase": "Ready"})
    assert (await api.get("/v1/statuses"))["statuses"] == [
        {
            "group": "", "plural": "configmaps", "namespace": "shop", "name": "a", "uid": "uid-a", "state": "waiting",
            "ageSeconds": 1.0, "code": "", "reason": "",
        }
    ]  # fmt: skip


async def test_apply_is_taken_as_yaml(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nstatus: {phase: Ready}\n"
    status, body = await api.send(f"{PATH}/status?fieldManager=mapper", text, {"Content-Type": APPLY})
    assert (status, body["status"]) == (200, {"phase": "Ready"})
    other = text.replace(b"Ready", b"Busy")
    status, body = await api.send(f"{PATH}/status?fieldManager=other", other, {"Content-Type": APPLY})
    assert (status, body["reason"]) == (409, "Conflict") and body["details"]["causes"][0]["field"] == ".status.phase"
    status, body = await api.send(f"{PATH}/status?fieldManager=other&force=true", other, {"Content-Type": APPLY})
    assert (status, body["status"]) == (200, {"phase": "Busy"})


@pytest.mark.parametrize(
    ("path", "kind", "body", "code", "says"),
    [
        ("/api/v1/namespaces/other/configmaps/b/status", MERGE, {}, 403, "statusFromEdge: true"),
        ("/api/v1/namespaces/shop/configmaps/none/status", MERGE, {}, 404, "not found"),
        ("/api/v1/namespaces/shop/nothings/a/status", MERGE, {}, 404, "could not find"),
        (f"{PATH}/status", "application/strategic-merge-patch+json", {}, 415, "--type=merge"),
        (f"{PATH}/status", "application/json-patch+json", {}, 415, "--type=merge"),
        (f"{PATH}/status", MERGE, {"data": {"k": "other"}}, 422, "data: only status"),
        (f"{PATH}/status", MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "modified"),
        (f"{PATH}/scale", MERGE, {}, 405, "PATCH"),
        (PATH, MERGE, {}, 405, "PATCH"),
        ("/api/v1/namespaces/shop/secrets/a/status", MERGE, {}, 401, "Secrets"),
    ],
)
async def test_refusals_are_those_of_kubernetes(
    api: Api, path: str, kind: str, body: dict[str, Any], code: int, says: str
) -> None:
    status, found = await api.patch({"a": 1}, path, kind, **body)
    assert (status, found["kind"], found["code"]) == (code, "Status", code) and says in found["message"]
    assert "status" not in await api.get(PATH)


async def test_other_methods_are_not_served(api: Api) -> None:
    for method in ("PUT", "POST", "DELETE"):
        status, body = await api.send(f"{PATH}/status", b"{}", {"Content-Type": "application/json"}, method)
        assert (status, body["reason"]) == (405, "MethodNotAllowed")


async def test_a_body_is_read_no_further_than_its_limit(api: Api) -> None:
    status, body = await api.send(f"{PATH}/status", b" " * (BODY_BYTES_MAX + 1), {"Content-Type": MERGE})
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_discovery_shows_whose_status_may_be_patched(api: Api) -> None:
    found = {each["name"]: each["verbs"] for each in (await api.get("/api/v1"))["resources"]}
    assert found["configmaps/status"] == ["get", "patch"] and "pods/status" not in found


async def test_a_dry_run_writes_nothing(api: Api) -> None:
    status, body = await api.patch({"a": 1}, f"{PATH}/status?dryRun=All")
    assert (status, body["status"]) == (200, {"a": 1}) and "status" not in await api.get(PATH)


async def test_where_a_token_is_needed_a_patch_needs_it() -> None:
    async with serving(required=True) as api:
        assert (await api.patch({"a": 1}))[0] == 401
        headers = {"Content-Type": MERGE, "Authorization": f"Bearer {TOKEN}"}
        assert (await api.send(f"{PATH}/status", b'{"status": {"a": 1}}', headers))[0] == 200
