"""Each step of a subscription's script, done on a running service."""

from __future__ import annotations

import pytest
from tests.support.edges.endpoint import listening
from tests.support.topics.messaging import Topics

from fairlead_messaging.api.errors import Conflict, NotFound
from fairlead_messaging.api.message_id import FIRST, parse_hex
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.push_performer import EndpointResolver, PushPerformer, PushSender
from fairlead_messaging.server.subscriptions import push, subscription
from fairlead_messaging.server.subscriptions.push import (
    BackOff,
    Find,
    Load,
    PushPause,
    PushResult,
    ReadPage,
    Save,
    Send,
    StoreDeadLetter,
)


async def test_each_step_does_what_it_says(topics: Topics) -> None:
    metrics = MessagingMetrics()
    sender = PushSender()
    performer = PushPerformer(("default", "t", "s"), topics.broker, sender, metrics)
    await topics.create("dead")
    with pytest.raises(NotFound):
        await performer.perform(Load())
    await topics.configure("t", delivery={"minimum_delay": 1, "maximum_delay": 9})
    async with listening() as endpoint:
        endpoint.answers = [503, 503]
        # A subscription whose own task keeps still, because its one message waits.
        await topics.ok("PUT", "topics/t/subscriptions/s", {"url": "http://127.0.0.1:1/"})
        await topics.publish("t", "a")
        loaded = await performer.perform(Load())
        assert (loaded.generation, loaded.policy.maximum_delay, performer.trouble) == (1, 9, "")
        page = await performer.perform(ReadPage(FIRST, 1, 0))
        [item] = page.items
        assert (await performer.perform(Find(item.id, 1))).payload == b"a"
        with pytest.raises(NotFound):
            await performer.perform(ReadPage(FIRST, 2, 0))
        assert await performer.perform(Send(endpoint.url, item)) == PushResult("status 503")
        await performer.perform(StoreDeadLetter(item, "default/dead"))
        await performer.perform(StoreDeadLetter(item, "default/dead"))
        assert await topics.payloads("dead") == ["a"]
        await performer.perform(PushPause(topics.clock.now_ms))
        await performer.perform(BackOff(0.0, "the store rests"))
        assert performer.trouble == "the store rests"
        await topics.ok("DELETE", "topics/t/subscriptions/s")
        saved = push.moved_to(loaded.record, item.id.hex(), delivered=1)
        with pytest.raises(NotFound):
            await performer.perform(Save(saved, 1, subscription.policy_digest(loaded.policy)))
        assert parse_hex(saved.position) == item.id
    await sender.close()


async def test_what_went_by_another_policy_is_not_saved(topics: Topics) -> None:
    sender = PushSender()
    performer = PushPerformer(("default", "t", "s"), topics.broker, sender, MessagingMetrics())
    await topics.ok("PUT", "topics/t/subscriptions/s", {"url": "http://127.0.0.1:1/"})
    loaded = await performer.perform(Load())
    digest = subscription.policy_digest(loaded.policy)
    await topics.ok("PUT", "topics/t/properties", {"delivery": {"minimum_delay": 1}})
    with pytest.raises(Conflict):
        await performer.perform(Save(loaded.record, 1, digest))
    again = await performer.perform(Load())
    await performer.perform(Save(again.record, 1, subscription.policy_digest(again.policy)))
    await sender.close()


async def test_a_name_that_means_the_metadata_service_is_not_pushed_to() -> None:
    """Whatever it meant when the subscription was made; 2852039166 is 169.254.169.254 to a resolver."""
    resolver = EndpointResolver()
    with pytest.raises(OSError, match="link-local"):
        await resolver.resolve("2852039166", 80)
    assert [each["host"] for each in await resolver.resolve("127.0.0.1", 80)] == ["127.0.0.1"]
    await resolver.close()
