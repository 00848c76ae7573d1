"""The account that the agent gives is the one that the document describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge import agent_status
from fairlead_edge.io.local_api.bodies import account
from fairlead_edge.link_state import LinkState
from fairlead_wire.delivery_policy import DeliveryPolicy


async def test_the_account_has_the_fields_of_the_document(tmp_path: Path) -> None:
    """Each, and no other: a change of the account is a change of ``account.AgentAccount``."""
    upstream = open_upstream(tmp_path / "outbox.db", FakeHub())
    await upstream.publisher.publish(body({"properties": {"priority": "0"}}))
    agent = agent_status.AgentStatus(
        node="edge-1", agent="1.2", store_epoch=1, now=5.0, link=LinkState(), held=1, commits=1, watches=0, counters={},
        outbox=await upstream.outbox.status(now=5.0), routes={}, publishing={"received": 1}, pumping={},
        delivery={"upstream": DeliveryPolicy()}, given_out={("iothub", 0): (1, 2)},
    )  # fmt: skip
    await upstream.outbox.close()
    shown = agent_status.status(agent)
    assert shown["queues"]
    read = msgspec.json.decode(msgspec.json.encode(shown), type=account.AgentAccount)
    again: dict[str, Any] = msgspec.to_builtins(read)
    assert again.keys() == shown.keys()
    for part in ("link", "objects", "store"):
        assert again[part].keys() == shown[part].keys()
    assert again["queues"][0].keys() == shown["queues"][0].keys()
