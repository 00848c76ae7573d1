"""The whole agent as a program: started, asked, killed, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.edges.edge_agent import PROGRAM, EdgeAgent
from tests.support.hubs.hub_server import HubServer, config_map
from tests.support.joining.pki import Authority, Pair
from tests.support.processes import wait_until
from websockets.exceptions import ConnectionClosed

from fairlead_edge import app
from fairlead_edge.errors import StoreDamaged
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import message
from fairlead_wire.io import tls
from fairlead_wire.link import codec

pytestmark = pytest.mark.process

ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all", "uid": "uid-routes"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {"all": {"route": "FROM /messages/* INTO $upstream", "priority": 1}, "bad": "FROM"},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 3600},
    },
}
MESSAGES = {"messages": [{"source": "/messages/modules/m/outputs/o", "body": {"t": 21}}]}


async def started(agents: list[EdgeAgent], folder: Path, hub_url: str, **settings: str) -> EdgeAgent:
    agents.append(EdgeAgent(folder, hub_url, **settings))
    await asyncio.to_thread(agents[-1].start)
    return agents[-1]


def mtls(authority: Authority, pair: Pair) -> dict[str, str]:
    files = {"TLS_CA": authority.certificate, "TLS_CERT": pair.certificate, "TLS_KEY": pair.key}
    return {"SECURITY": "mtls", **{name: str(path) for name, path in files.items()}}


async def test_from_the_first_object_to_the_last_message(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        peer = await hub.open()
        assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES))[0] == 503
        await peer.hold(config_map("prices"))
        await peer.hold(ROUTES, plural="edgeroutes")
        while True:
            header, content = await peer.receive()
            if isinstance(header, message.Status) and b'"uid-routes"' in content:
                break
        assert b'"accepted":["all"]' in content and b'"route":"bad"' in content

        status, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
        assert status == 200
        [delivery] = body["results"][0]["deliveries"]
        assert (delivery["endpoint"], delivery["priority"]) == ("iothub", 1)
        header, content = await peer.expect(message.Upstream)
        assert isinstance(header, message.Upstream) and header.stream == "iothub_Pri1"
        assert body["results"][0]["id"].encode() in codec.unpack(header.encoding, content)

        await asyncio.to_thread(agent.kill)  # before the batch was acknowledged
        await asyncio.to_thread(agent.start)
        assert (await asyncio.to_thread(agent.get, "/api/v1/namespaces/shop/configmaps/prices"))[0] == 200
        peer = await hub.open()
        assert peer.hello.held == 2
        again, content = await peer.expect(message.Upstream)
        assert body["results"][0]["id"].encode() in codec.unpack(again.encoding, content)
        await peer.send(message.Ack(parent_id=again.id))

        _, account = await asyncio.to_thread(agent.get, "/v1/status")
        assert account["link"]["state"] == "connected" and account["objects"]["held"] == 2
        assert await asyncio.to_thread(agent.stop) == 0
    await asyncio.to_thread(agent.start)  # no hub any more
    _, found = await asyncio.to_thread(agent.get, "/api/v1/namespaces/shop/configmaps/prices")
    assert found["data"] == {"value": "1"}
    assert int(found["metadata"]["annotations"]["fairlead.dev/age-seconds"]) >= 0
    assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES))[0] == 200
    _, account = await asyncio.to_thread(agent.get, "/v1/status")
    assert account["link"]["lastContactSeconds"] is not None and account["queues"][0]["length"] == 1
    assert await asyncio.to_thread(agent.stop) == 0
    assert not [entry for entry in agent.events() if "traceback" in entry]


async def test_unusable_first_routes_are_answered_with_the_reason_until_usable_ones_come(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    """Accepted with no deliveries the messages would be gone; a store cloned under another name sends nothing."""
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        peer = await hub.open()
        await peer.hold({**ROUTES, "spec": {**ROUTES["spec"], "schemaVersion": "9.0"}}, plural="edgeroutes")
        status, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
        assert status == 503 and "schemaVersion" in body["error"]["message"]
        await peer.hold(ROUTES, plural="edgeroutes")
        assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES))[0] == 200
        await asyncio.to_thread(agent.kill)
        clone = EdgeAgent(tmp_path, hub.url, node="edge-2")
        agents.append(clone)
        (tmp_path / "data" / "objects.db").unlink()
        assert await asyncio.to_thread(lambda: clone.launch().process.wait(120)) == 1
        assert "of node 'edge-1', but node is" in clone.log.read_text()


async def test_a_refused_manifest_leaves_the_last_good_routes_in_force_also_over_kill_9(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    """The agent is killed as soon as the bad version is on disk; the next start routes by the good one."""
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        peer = await hub.open()
        await peer.hold(ROUTES, plural="edgeroutes")
        await peer.hold({**ROUTES, "spec": {**ROUTES["spec"], "schemaVersion": "9.0"}}, plural="edgeroutes")
        await asyncio.to_thread(agent.kill)
    await asyncio.to_thread(agent.start)
    status, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
    assert (status, [each["priority"] for each in body["results"][0]["deliveries"]]) == (200, [1])
    async with HubServer() as hub:
        await asyncio.to_thread(agent.kill)
        agent._settings["HUB_URL"] = hub.url
        await asyncio.to_thread(agent.start)
        peer = await hub.open()
        await peer.hold({**ROUTES, "spec": {**ROUTES["spec"], "routes": {}}}, plural="edgeroutes")
        _, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
        assert body["results"][0]["deliveries"] == [], "a good version without routes is obeyed"
        await asyncio.to_thread(agent.kill)
        await asyncio.to_thread(agent.start)
        _, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
        assert body["results"][0]["deliveries"] == []


async def test_a_full_store_refuses_for_now(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """A small max_bytes stands for a full disk: temporary nacks, nothing half stored, and the agent lives."""
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url, STORE_MAX_BYTES=str(1024 * 1024))
        peer = await hub.open()
        ids = [await peer.update(config_map(f"n-{number}", data="x" * 50_000)) for number in range(10)]
        answers: dict[int, message.Ack | message.Nack] = {}
        while len(answers) < len(ids):
            header, _ = await peer.receive()
            if isinstance(header, message.Nack):
                answers[header.parent_id] = header
            elif isinstance(header, message.Ack):
                answers |= {id: header for id in ids if id <= header.parent_id and id not in answers}
        nacks = [answer for answer in answers.values() if isinstance(answer, message.Nack)]
        assert 0 < len(nacks) < 10
        assert {(nack.code, nack.permanent) for nack in nacks} == {("store_full", False)}
        _, found = await asyncio.to_thread(agent.get, "/api/v1/configmaps")
        assert len(found["items"]) == 10 - len(nacks)
        await peer.settled(await peer.delete(config_map("n-0")))
        assert isinstance(await peer.settled(await peer.update(config_map("late", data="x" * 1000))), message.Ack)


async def test_with_mutual_tls_the_link_is_sealed_and_the_token_asked_for(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    authority = Authority(tmp_path / "pki")
    hub_pair, edge_pair = authority.issue("hub", hosts=("127.0.0.1",)), authority.issue("edge-1")
    files = tls.Files(ca=authority.certificate, cert=hub_pair.certificate, key=hub_pair.key)
    async with HubServer(context=tls.server_context(files)) as hub:
        agent = await started(agents, tmp_path, hub.url, **mtls(authority, edge_pair))
        peer = await hub.open()
        assert tls.peer_name(peer.connection.transport.get_extra_info("ssl_object").getpeercert()) == "edge-1"
        await peer.hold(config_map("a"))
        path = "/api/v1/namespaces/shop/configmaps/a"
        assert (await asyncio.to_thread(agent.get, path))[0] == 401
        assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES))[0] == 401
        status, _ = await asyncio.to_thread(lambda: agent.get(path, Authorization=f"Bearer {agent.token()}"))
        assert status == 200
        assert await asyncio.to_thread(agent.stop) == 0


async def test_no_session_opens_with_a_hub_of_another_authority(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    hub_pair, edge_pair = theirs.issue("hub", hosts=("127.0.0.1",)), ours.issue("edge-1")
    files = tls.Files(ca=theirs.certificate, cert=hub_pair.certificate, key=hub_pair.key)
    async with HubServer(context=tls.server_context(files)) as hub:
        agent = await started(agents, tmp_path, hub.url, **mtls(ours, edge_pair))

        def refused() -> bool:
            link = agent.get("/v1/status", Authorization=f"Bearer {agent.token()}")[1]["link"]
            return link["state"] == "connecting" and "certificate" in link["reason"]

        await asyncio.to_thread(lambda: wait_until("the reason is known", refused, seconds=120))
        assert hub.connections == 0


async def test_a_disk_that_fails_ends_the_agent_and_loses_nothing(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """Exit 1; the next start reads what is really there, which is at least all that was acknowledged.

    A limit on the size of files makes the kernel refuse writes in the middle of a transaction (EFBIG).
    """
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        assert agent.running is not None
        peer = await hub.open()
        await peer.hold(config_map("before"))
        resource.prlimit(agent.running.pid, resource.RLIMIT_FSIZE, (1024 * 1024, resource.RLIM_INFINITY))
        acknowledged = 0
        ids = [await peer.update(config_map(f"n-{number}", data="x" * 50_000)) for number in range(60)]
        with contextlib.suppress(ConnectionClosed):
            while True:
                header, _ = await peer.receive()
                if isinstance(header, message.Ack):
                    acknowledged = sum(id <= header.parent_id for id in ids)
        assert await asyncio.to_thread(agent.running.process.wait, 120) == 1
        assert 0 < acknowledged < 60
        assert "the disk failed" in agent.log.read_text()
        await asyncio.to_thread(agent.start)
        _, found = await asyncio.to_thread(agent.get, "/api/v1/configmaps")
        assert len(found["items"]) >= 1 + acknowledged


def test_two_agents_on_one_folder(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    first = EdgeAgent(tmp_path, "ws://127.0.0.1:9")
    second = EdgeAgent(tmp_path, "ws://127.0.0.1:9")
    second.log = tmp_path / "second.log"
    agents += [first, second]
    first.start()
    running = second.launch()
    assert running.process.wait(120) == 1
    assert f"in use by another edge agent (process {first.running.pid})" in second.log.read_text()  # type: ignore[union-attr]
    assert first.get("/healthz") == (200, "ok")


def test_a_damaged_store_is_an_error_not_an_empty_one(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """Exit 1 with the file's name: the agent never goes on in memory without a word."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "objects.db").write_bytes(b"no database " * 1000)
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:9")
    agents.append(agent)
    assert agent.launch().process.wait(120) == 1
    assert "objects.db: cannot be opened" in agent.log.read_text()


def test_a_port_in_use_is_said(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    first = EdgeAgent(tmp_path / "a", "ws://127.0.0.1:9")
    second = EdgeAgent(tmp_path / "b", "ws://127.0.0.1:9", HTTP_LISTEN=f"127.0.0.1:{first.port}")
    agents += [first, second]
    first.start()
    assert second.launch().process.wait(120) == 1
    assert f"http_listen 127.0.0.1:{first.port}: " in second.log.read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('node = "edge-1"\nhub_url = "ws://127.0.0.1:1"\nsecurity = "insecure"\n', "data_dir: required, but not set"),
        ('nodes = "edge-1"\n', "nodes: unknown key"),
        ("node = ", "not TOML"),
        (
            'node = "edge-1"\nhub_url = "wss://hub:1"\ndata_dir = "d"\n'
            'tls_ca = "none.crt"\ntls_cert = "none.crt"\ntls_key = "none.key"\n',
            "tls_ca none.crt",
        ),
    ],
)
def test_bad_settings_end_with_2_and_the_reason(tmp_path: Path, settings: str, said: str) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(settings)
    done = subprocess.run(
        [str(PROGRAM), "edge", "run", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("fairlead edge: ") and said in done.stderr and "Traceback" not in done.stderr


def test_health_on_a_port_of_its_own(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:9")
    other = EdgeAgent(tmp_path, "")
    agent._settings["HEALTH_LISTEN"] = f"127.0.0.1:{other.port}"
    agents.append(agent)
    agent.start()
    assert other.get("/readyz") == (200, "ok")
    assert "fairlead_edge_connected 0" in other.get("/metrics")[1]
    assert other.get("/api/v1/pods")[0] == 404


def test_what_it_creates_is_for_its_user_only(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:9")
    agents.append(agent)
    agent.start()
    files = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "data").iterdir()}
    assert {"token", "lock", "objects.db", "outbox.db"} <= files.keys() and set(files.values()) == {0}


def test_opened_anew_after_damage_it_has_the_settings_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was loaded at the start may name the hub from which the node has moved since."""
    old, new = (
        EdgeSettings(node="a", hub_url=f"ws://{hub}:1", data_dir="/none", security="insecure") for hub in ("old", "new")
    )
    served: list[EdgeSettings] = []

    async def serve(settings: EdgeSettings, manager: object, *, thorough: bool) -> None:
        served.append(settings)
        if not thorough:
            raise StoreDamaged("a page is not what was written")

    monkeypatch.setattr(app, "_serve", serve)
    manager: Any = type("Manager", (), {"repairing": lambda self: None})()
    app._serve_with_reopening(old, manager, lambda: new)
    assert served == [old, new]


def test_importing_the_agent_is_cheap() -> None:
    code = "import sys, fairlead_edge.app; print(*sorted(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"kopf", "kubernetes", "pydantic", "pyspark", "prometheus_client", "cryptography", "requests"}


async def test_an_object_the_disk_changed_is_not_served_and_comes_back(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """The others are listed, a watch ends so that its client lists anew, and the hub sees what is held."""
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        peer = await hub.open()
        for name in ("a", "b", "c"):
            await peer.hold(config_map(name))
        spoil = "UPDATE objects SET content = CAST(replace(content, '\"b\"', '\"x\"') AS BLOB)"
        connection = apsw.Connection(str(tmp_path / "data" / "objects.db"))
        connection.execute(spoil)
        connection.close()
        status, _ = await asyncio.to_thread(agent.get, "/api/v1/namespaces/shop/configmaps/b")
        assert status == 404
        _, found = await asyncio.to_thread(agent.get, "/api/v1/configmaps")
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "c"]
        peer = await hub.open()
        assert peer.hello.held == 2
        await peer.hold(config_map("b"))
        _, found = await asyncio.to_thread(agent.get, "/api/v1/configmaps")
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b", "c"]
        _, account = await asyncio.to_thread(agent.get, "/v1/status")
        assert (account["objects"]["held"], account["objects"]["damaged"]) == (3, 1)
    assert "objects_damaged" in agent.log.read_text()
    assert not [entry for entry in agent.events() if "traceback" in entry]


async def test_routes_the_disk_changed_still_route_until_the_hub_sends_them_again(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url)
        peer = await hub.open()
        await peer.hold(ROUTES, plural="edgeroutes")
        await asyncio.to_thread(agent.kill)
    connection = apsw.Connection(str(tmp_path / "data" / "objects.db"))
    connection.execute("UPDATE objects SET uid = 'changed'")
    connection.close()
    for _ in range(2):
        await asyncio.to_thread(agent.start)
        status, body = await asyncio.to_thread(agent.ask, "POST", "/v1/messages", MESSAGES)
        assert status == 200 and body["results"][0]["deliveries"], body
        assert await asyncio.to_thread(agent.stop) == 0
    assert "objects_damaged" in {entry["event"] for entry in agent.events()}


async def test_both_stores_are_accounted_for_and_refused_routes_are_in_the_log(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    """Objects and messages together take what max_bytes allows; a bad route is logged once."""
    async with HubServer() as hub:
        agent = await started(agents, tmp_path, hub.url, STORE_MAX_BYTES="1000000")
        peer = await hub.open()
        await peer.hold(ROUTES, plural="edgeroutes")
        await peer.hold({**ROUTES, "metadata": {"name": "more", "uid": "uid-more"}}, plural="edgeroutes")
        status = (await asyncio.to_thread(agent.get, "/v1/status"))[1]
        assert status["objects"]["maxBytes"] + status["store"]["maxBytes"] == 1_000_000
        assert status["objects"]["bytes"] == (tmp_path / "data" / "objects.db").stat().st_size > 0
        refused = [(each["object"], each["route"]) for each in agent.events() if each["event"] == "route_refused"]
        assert len(refused) == len(set(refused)) and ("all", "bad") in refused
