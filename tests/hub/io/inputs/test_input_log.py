"""Where messages to modules wait: topics of a real messaging service."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging import serving

from fairlead_hub.inputs import node_queue
from fairlead_hub.io.inputs import input_log
from fairlead_hub.io.inputs.input_log import InputLog
from fairlead_messaging.client.io.async_client import AsyncClient


async def test_messages_are_read_in_order_and_the_way_is_noted() -> None:
    """By a hub that has nothing but messaging."""
    async with serving() as topics, AsyncClient(topics.url) as client:
        log = InputLog(client)
        assert await log.reached("edge-1.shop") == await log.reached("edge-1.shop") == node_queue.AT_START
        assert await log.read("edge-1.shop", "") == [] and await log.one("edge-1.shop", "0" * 40) is None
        assert await log.nodes() == []
        await log.append("edge-1.shop", [b"a", b"b"])
        await log.append("edge-1.shop", [b"c"])
        found = await log.read("edge-1.shop", "")
        assert [payload for _, payload in found] == [b"a", b"b", b"c"]
        assert await log.read("edge-1.shop", found[1][0]) == found[2:]
        assert await log.one("edge-1.shop", found[1][0]) == b"b"
        await log.note("edge-1.shop", found[1][0])
        assert await InputLog(client).reached("edge-1.shop") == found[1][0]
        assert await log.nodes() == ["edge-1.shop"]
        properties = await client.topic(input_log.NAMESPACE, "inputs-edge-1_shop")
        assert int(properties["ttl"]) == input_log.TTL_SECONDS


@pytest.mark.parametrize("node", ["edge-1", "a.b.c", "a-b.c"])
def test_a_topic_names_its_node(node: str) -> None:
    """There and back; no two nodes have one topic."""
    topic = input_log.topic_of(node)
    assert topic is not None and input_log.node_of(topic) == node


def test_what_is_no_name_of_a_node_has_no_topic() -> None:
    """And other topics of the namespace are no nodes."""
    assert [input_log.topic_of(each) for each in ("A", "a_b", "a/b", "", "n" * 191)] == [None] * 5
    assert input_log.node_of("events") is None
