"""Authorities that are taken from, or given to, an agent that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_server import HubServer
from tests.support.joining.pki import Authority
from tests.support.processes import wait_until

from fairlead_wire.io import tls

pytestmark = pytest.mark.process


async def test_a_removed_authority_is_not_believed_with_the_next_dial(tmp_path: Path, agents: list[EdgeAgent]) -> None:
    """The agent that held both goes on; the hub of the removed one is refused, that of the other is spoken to."""
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    edge_pair = old.issue("edge-1")
    trusted = tmp_path / "authorities.pem"
    trusted.write_bytes(old.certificate.read_bytes() + new.certificate.read_bytes())

    def context(authority: Authority) -> Any:
        pair = authority.issue("hub", hosts=("127.0.0.1",))
        made = tls.server_context(tls.Files(ca=old.certificate, cert=pair.certificate, key=pair.key))
        return made

    async with HubServer(context=context(old)) as hub:
        agent = EdgeAgent(
            tmp_path,
            hub.url,
            SECURITY="mtls",
            TLS_CA=str(trusted),
            TLS_CERT=str(edge_pair.certificate),
            TLS_KEY=str(edge_pair.key),
        )
        agents.append(agent)
        await asyncio.to_thread(agent.start)
        peer = await hub.open()
        # The agent looks at its files again before it dials, not only once in a while.
        trusted.write_bytes(new.certificate.read_bytes())
        await peer.connection.close()

        def refused() -> bool:
            link = agent.get("/v1/status", Authorization=f"Bearer {agent.token()}")[1]["link"]
            return link["state"] == "connecting" and "was refused here" in link["reason"]

        await asyncio.to_thread(lambda: wait_until("the old hub is refused", refused, seconds=120))
        assert hub.connections == 1
        port = hub.port
    async with HubServer(port, context=context(new)) as hub:
        await hub.open()
        assert await asyncio.to_thread(agent.stop) == 0
