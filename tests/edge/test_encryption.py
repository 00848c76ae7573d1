"""A real agent whose stores are encrypted: what a thief of its disk finds, and what it does with a wrong key."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_server import HubServer
from tests.support.processes import wait_until

pytestmark = pytest.mark.process

PASSWORD = "correct-horse-battery-staple"
NAME = "door-codes-of-shop-17"
READING = "nobody-may-read-this-reading"
SOURCE = "/messages/modules/meter/outputs/confidential"
ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all", "uid": "uid-routes"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {"all": "FROM /messages/modules/meter/* INTO $upstream"},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 360000},
    },
}
HIDDEN_OBJECTS = (PASSWORD, base64.b64encode(PASSWORD.encode()).decode(), NAME, "uid-secret", "uid-routes")
HIDDEN_MESSAGES = (READING, "confidential", "a-property-of-it", "a-key-of-it", "$upstream")


def secret() -> dict[str, Any]:
    data = {"code": base64.b64encode(PASSWORD.encode()).decode()}
    metadata = {"name": NAME, "namespace": "shop", "uid": "uid-secret"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def messages(number: int) -> dict[str, Any]:
    body = {"reading": f"{READING}-{number}", "more": secrets.token_hex(3000)}
    return {"messages": [{"source": SOURCE, "properties": {"note": "a-property-of-it"}, "body": body}]}


def found_on_disk(folder: Path, texts: Sequence[str | bytes]) -> set[tuple[str, str | bytes]]:
    """Every raw byte of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        (path.name, text)
        for path in files
        for content in [path.read_bytes()]
        for text in texts
        if (text.encode() if isinstance(text, str) else text) in content
    }


def stored_bodies(path: Path) -> list[bytes]:
    """A part of each stored piece, as it lies on disk: bodies are compressed."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [content[20:60] for (content,) in connection.execute("SELECT content FROM segments")]
    finally:
        connection.close()


def key_file(path: Path) -> str:
    path.write_text(secrets.token_hex(32) + "\n")
    path.chmod(0o600)
    return str(path)


def _text(path: str) -> str:
    return Path(path).read_text()


async def _filled(hub: HubServer, agent: EdgeAgent) -> None:
    """A Secret, routes, and messages that nothing acknowledges; some of what was there is written over and deleted."""

    peer = await hub.open()
    await peer.hold(secret(), plural="secrets")
    await peer.hold(ROUTES, plural="edgeroutes")

    first = messages(0)

    def publish() -> None:
        def accepted() -> bool:
            answer = agent.ask("POST", "/v1/messages", first, **{"Idempotency-Key": "a-key-of-it"})
            assert answer[0] == 200, answer
            return True

        wait_until("messages are accepted", accepted, seconds=100.0)
        for number in range(1, 30):
            assert agent.ask("POST", "/v1/messages", messages(number))[0] == 200

    await asyncio.to_thread(publish)


async def test_a_stolen_disk_shows_nothing_and_every_change_of_settings_keeps_everything(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    """Plain, then secrets, all, another key, secrets, none: nothing lost, and nothing found that should be hidden."""

    data = tmp_path / "data"
    first, second = key_file(tmp_path / "first.key"), key_file(tmp_path / "second.key")
    keys = [key.removesuffix("\n") for key in map(_text, (first, second))]
    async with HubServer() as hub:
        agent = EdgeAgent(tmp_path, hub.url, STORE_DEFAULT_TTL_SECONDS="-1")
        agents.append(agent)
        await asyncio.to_thread(agent.start)
        await _filled(hub, agent)
        await asyncio.to_thread(agent.kill)
    assert {text for _, text in found_on_disk(data, HIDDEN_OBJECTS)} >= {NAME, "uid-routes"}
    packed = stored_bodies(data / "outbox.db")
    assert len(packed) == 30 and {text for _, text in found_on_disk(data, packed)} == set(packed)
    (data / "objects.db.damaged").write_bytes((data / "objects.db").read_bytes())  # as a salvage leaves it

    async def starts(*, hidden: Sequence[str | bytes], count: int, **settings: str) -> None:
        agent.set(**settings)
        await asyncio.to_thread(agent.start)
        _, found = await asyncio.to_thread(
            lambda: agent.get(f"/api/v1/namespaces/shop/secrets/{NAME}", Authorization=f"Bearer {agent.token()}")
        )
        assert base64.b64decode(found["data"]["code"]).decode() == PASSWORD
        _, status = await asyncio.to_thread(agent.get, "/v1/status")
        assert sum(queue["length"] for queue in status["queues"]) == count
        assert status["store"]["salvaged"] == "" and status["objects"]["damaged"] == 0
        assert status["store"]["encryption"]["encrypt"] == settings.get("STORE_ENCRYPT", "secrets")
        assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", messages(count)))[0] == 200
        assert not found_on_disk(data, hidden)
        await asyncio.to_thread(agent.kill)  # with a log that is not folded back
        assert not found_on_disk(data, hidden)

    both: list[str | bytes] = [*HIDDEN_OBJECTS, *HIDDEN_MESSAGES, *packed]
    await starts(hidden=HIDDEN_OBJECTS, count=30, STORE_ENCRYPTION_KEY=first)
    await starts(hidden=both, count=31, STORE_ENCRYPT="all")
    rotated = {"STORE_ENCRYPTION_KEY": second, "STORE_PREVIOUS_ENCRYPTION_KEY": first, "STORE_ENCRYPT": "all"}
    before = (data / "encryption.keys").read_bytes()
    await starts(hidden=both, count=32, **rotated)
    assert (data / "encryption.keys").read_bytes() != before
    await starts(hidden=HIDDEN_OBJECTS, count=33, STORE_ENCRYPT="secrets")
    await starts(hidden=(), count=34, STORE_ENCRYPT="none")
    assert found_on_disk(data, (NAME,)) and not list(data.glob("encryption*")) and not list(data.glob("*.converting"))
    log = agent.log.read_text()
    assert not any(key in log for key in keys)


@pytest.mark.verify
def test_a_wrong_or_missing_key_ends_it_in_one_sentence_and_touches_nothing(
    tmp_path: Path, agents: list[EdgeAgent]
) -> None:
    """No key, another one, none at all behind the setting, and a keyring that is gone."""
    data = tmp_path / "data"
    right, wrong = key_file(tmp_path / "right.key"), key_file(tmp_path / "wrong.key")
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:9", STORE_ENCRYPTION_KEY=right, STORE_ENCRYPT="all")
    agents.append(agent)
    agent.start()
    assert agent.stop() == 0
    keyring = (data / "encryption.keys").read_bytes()

    def refused(code: int, *texts: str, **settings: str) -> None:
        before = {path.name: path.read_bytes() for path in data.iterdir() if path.name not in ("lock", "reserve")}
        agent.set(**settings)
        running = agent.launch()
        assert running.process.wait(120) == code
        said = [line for line in running.tail().splitlines() if not line.startswith("{")][-1]
        assert all(text in said for text in texts), said
        after = {path.name: path.read_bytes() for path in data.iterdir() if path.name not in ("lock", "reserve")}
        assert after == before

    refused(1, "fingerprint", "nothing was changed", STORE_ENCRYPTION_KEY=wrong)
    short = tmp_path / "short.key"
    short.write_text("a-secret-that-is-too-short")
    refused(2, "holds no key of 32 bytes", "openssl rand", STORE_ENCRYPTION_KEY=str(short))
    assert "a-secret-that-is-too-short" not in agent.log.read_text()
    refused(2, "No such file", STORE_ENCRYPTION_KEY=str(tmp_path / "gone.key"))
    refused(2, "LoadCredential", STORE_ENCRYPTION_KEY="credential:edge.key")
    agent.set(STORE_ENCRYPTION_KEY=right)
    for name in ("encryption.keys", "encryption.keys.copy"):
        (data / name).unlink()
    refused(1, "encryption.keys", "is missing", "nothing was changed")
    (data / "encryption.keys").write_bytes(keyring)
    agent.start()
    assert agent.stop() == 0
    agent._settings.pop("STORE_ENCRYPTION_KEY")
    agent._settings.pop("STORE_ENCRYPT")
    refused(1, "are encrypted", "encryption_key is not set", "nothing was changed")


def test_a_credential_of_systemd_is_a_key(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """And nothing of cryptography is imported before encryption is on."""
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "edge.key").write_bytes(os.urandom(32))
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:9", STORE_ENCRYPTION_KEY="credential:edge.key")
    agents.append(agent)
    agent.extra = {"CREDENTIALS_DIRECTORY": str(credentials)}
    agent.start()
    _, status = agent.get("/v1/status")
    assert status["store"]["encryption"]["encrypt"] == "secrets"
    assert 'fairlead_edge_store_encrypted{store="objects"} 1' in agent.get("/metrics")[1]
    assert agent.stop() == 0
