"""Batches from edges into a real messaging service: an ack only behind its 200, everything else is said to the edge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import Core, Edge
from tests.support.hubs.live import ROUTES
from tests.support.joining.pki import Authority
from tests.support.spans import place, spans_in_memory
from tests.support.topics.messaging import Topics, serving
from tests.support.topics.messaging_service import MessagingService

from fairlead_hub import publish_batch
from fairlead_hub.io.messaging import upstream_publisher
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_messaging.api.requests import Producer
from fairlead_messaging.api.responses import Placed
from fairlead_messaging.client.errors import Busy, Denied, Disconnected, NotAllowed, TimedOut, Unreachable
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent, RemoteError, Temporary
from fairlead_wire.io.spans import Spans


def item(sequence: int = 0, *, topic: str = "default/telemetry", **fields: Any) -> message.UpstreamMessage:
    base = {
        "id": f"m{sequence}", "topic": topic, "epoch": 7, "sequence": sequence, "source": "/messages", "priority": 0,
        "enqueued_at": "2026-11-20T00:00:00Z", "body": msgspec.Raw(b'{"x":1}'),
    }  # fmt: skip
    return message.UpstreamMessage(**{**base, **fields})


class Door:
    """Stands before the service: counts, holds back, and fails when it shall."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.fail: list[Exception] = []
        self.open = asyncio.Event()
        self.open.set()
        self.published: list[tuple[str, Producer | None]] = []
        self.traceparents: list[str | None] = []
        self.unreachable = False

    async def create_topic(self, namespace: str, name: str) -> bool:
        if self.unreachable:
            raise Unreachable("no process listens")
        return await self._client.create_topic(namespace, name)

    async def publish(
        self,
        namespace: str,
        name: str,
        payloads: list[bytes],
        *,
        producer: Producer | None = None,
        traceparent: str | None = None,
    ) -> Placed:
        self.published.append((f"{namespace}/{name}", producer))
        self.traceparents.append(traceparent)
        await self.open.wait()
        if self.fail:
            raise self.fail.pop(0)
        if any(b"poison" in payload for payload in payloads):
            raise Permanent("one of them is poison", code="bad_message")
        return await self._client.publish(namespace, name, payloads, producer=producer)


class Line:
    """One edge's line up: what it sends, what it is answered."""

    def __init__(self, core: Core, desk: UpstreamPublisher, door: Door, topics: Topics | None) -> None:
        self.core, self.desk, self.door, self.topics = core, desk, door, topics
        self.edge: Edge = core.connect("edge-1")
        self.edge.sent()
        self.answers: list[Any] = []

    def send(
        self,
        id: int,
        *items: message.UpstreamMessage,
        stream: str = "iothub_0",
        topic: str = "",
        content: bytes = b"",
        follows: bool = False,
        traceparent: str | None = None,
    ) -> None:
        header = message.Upstream(id=id, stream=stream, topic=topic, follows=follows, traceparent=traceparent)
        self.desk.accept(self.edge.ref, header, content or msgspec.json.encode(list(items)))

    async def answer(self) -> Any:
        """The next one."""

        def has_come() -> bool:
            if not self.answers:
                self.answers.extend(self.edge.sent())
            return bool(self.answers)

        await until(has_come)
        answer = self.answers.pop(0)
        if not isinstance(answer, message.Ack | message.Nack):
            return answer
        held_seconds = answer.held_seconds
        assert held_seconds is not None and 0 <= held_seconds < 60, "every answer says how long the hub had the batch"
        return msgspec.structs.replace(answer, held_seconds=None)

    async def stored(self, topic: str = "telemetry") -> list[str]:
        """Ids of the messages in the topic."""
        assert self.topics is not None
        page = await self.topics.poll(topic)
        return [msgspec.json.decode(payload)["id"] for payload in page.payloads]


@contextlib.asynccontextmanager
async def lines(spans: Spans | None = None) -> AsyncIterator[Line]:
    async with serving() as topics, AsyncClient(topics.url) as client:
        core, door = Core("edge-1", messaging_url=topics.url), Door(client)
        desk = UpstreamPublisher(core.hub, door, window=2, spans=spans)
        await desk.ensure_topics()
        yield Line(core, desk, door, topics)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with lines() as made:
        yield made


async def test_an_ack_means_that_it_is_in_the_topic(line: Line) -> None:
    """With the node's name as the hub knows it, under the node's producer."""
    line.send(1, item(0), item(1))
    assert await line.answer() == message.Ack(parent_id=1)
    assert await line.stored() == ["m0", "m1"]
    [(topic, producer)] = line.door.published
    assert topic == "default/telemetry" and producer is not None
    assert (producer.id, producer.epoch, producer.sequences) == ("edge-1/iothub_0", 7, [0, 1])
    assert line.desk.counts.upstream_messages == 2


async def test_the_same_again_is_stored_once(line: Line) -> None:
    """The ack was lost; the edge sends everything again and new ones with it."""
    line.send(1, item(0))
    await line.answer()
    line.send(2, item(0), item(1))
    assert await line.answer() == message.Ack(parent_id=2)
    assert await line.stored() == ["m0", "m1"]
    assert line.desk.counts.upstream_duplicates == 1


async def test_batches_of_a_stream_are_published_in_order(line: Line) -> None:
    """The second waits for the first, another stream does not."""
    line.door.open.clear()
    line.send(1, item(0))
    line.send(2, item(1))
    line.send(3, item(0), stream="iothub_5")
    await until(lambda: len(line.door.published) == 2)
    assert {producer.id for _, producer in line.door.published if producer} == {"edge-1/iothub_0", "edge-1/iothub_5"}
    line.door.open.set()
    answers = [await line.answer() for _ in range(3)]
    ids = [answer.parent_id for answer in answers]
    assert sorted(ids) == [1, 2, 3] and ids.index(1) < ids.index(2)


async def test_more_than_the_window_is_malformed(line: Line) -> None:
    """The edge heard how many batches may be unanswered; memory does not grow with what it sends."""
    line.door.open.clear()
    with pytest.raises(Malformed, match="more than 2"):
        for id in range(1, 10):
            line.send(id, item(id))
    line.door.open.set()


async def test_refused_messages_are_announced(line: Line) -> None:
    """A reader of the system topic learns of it from the hub, not from the node's own account."""
    line.send(1, item(0, topic="system/events"), item(1, topic="other/secret"))
    assert [each.code for each in (await line.answer()).refused] == ["topic_not_granted"] * 2
    assert line.desk.counts.upstream_refused == {"topic_not_granted": 2}
    [said] = [each for each in line.core.take_cloud_events() if each.type != "node.connected"]
    assert (said.type, said.node, said.data["reason"], said.data["count"]) == (
        "messages.refused",
        "edge-1",
        "topic_not_granted",
        2,
    )


async def test_a_message_that_is_not_taken_is_found_by_halving(line: Line) -> None:
    """One in eight; the seven others are stored."""
    items = [item(n, source="/poison" if n == 5 else "/messages") for n in range(8)]
    line.send(1, *items)
    answer = await line.answer()
    assert [(each.index, each.code) for each in answer.refused] == [(5, "bad_message")]
    assert sorted(await line.stored()) == [f"m{n}" for n in range(8) if n != 5]


@pytest.mark.parametrize(("after", "said"), [(9.0, 9.0), (None, 1.0)])
async def test_messaging_that_is_away_is_not_now(line: Line, after: float | None, said: float) -> None:
    """A temporary nack with the time to come back; nothing is kept here."""
    line.door.fail.append(Temporary("it restarts", retry_after_seconds=after))
    line.send(1, item(0))
    [deferred] = (await line.answer()).deferred
    assert (deferred.index, deferred.code, deferred.retry_after) == (0, "messaging_unavailable", said)
    line.send(2, item(0))
    assert await line.answer() == message.Ack(parent_id=2)
    assert line.desk.counts.upstream_deferred == {"messaging_unavailable": 1}


@pytest.mark.parametrize(
    ("failure", "answers", "scope"),
    [
        (Unreachable("no process listens"), True, "hub"),
        (Busy("the disk is full", code="storage_failed", status=503, retry_after_seconds=1.0), True, "hub"),
        (TimedOut("no answer", seconds=30.0), False, "hub"),
        (Disconnected("it was killed"), False, "hub"),
        (TimedOut("it chokes on this batch", seconds=30.0), True, "topic"),
        (Busy("too much of this producer", code="x", status=429, retry_after_seconds=1.0), True, "topic"),
        (NotAllowed("it grants the hub nothing", code="forbidden", status=403), True, "topic"),
        (Denied("it is being deleted", code="topic_deleting", status=409), True, "topic"),
        (NotAllowed("who are you", code="unauthenticated", status=401), True, "stream"),
        (RemoteError("a proxy answered with a page"), True, "stream"),
        (RuntimeError("a defect of ours"), True, "stream"),
    ],
)
async def test_messaging_away_as_a_whole_is_not_one_batch_that_fails(
    line: Line, failure: Exception, answers: bool, scope: str
) -> None:
    """Away as a whole: nothing less urgent shall be tried.  One batch it chokes on stops no other."""
    line.door.fail.append(failure)
    if not answers:
        line.door.unreachable = True
    line.send(1, item(0))
    answer = await line.answer()
    if scope == "topic":
        assert isinstance(answer, message.Ack) and [each.index for each in answer.deferred] == [0], answer
    else:
        assert isinstance(answer, message.Nack) and (answer.scope, answer.permanent) == (scope, False), answer
    assert not line.edge.session.closing, "what messaging does is not the edge's fault"
    line.door.unreachable = False
    published = len(line.door.published)
    line.send(2, item(0), stream="iothub_5")
    second = await line.answer()
    if scope == "hub":
        assert (second.code, second.scope) == ("messaging_away", "hub")
        assert len(line.door.published) == published, "no batch is tried before it is due"
        line.desk._away_until = 0.0
        line.send(3, item(0), stream="iothub_5")
        second = await line.answer()
    assert isinstance(second, message.Ack)


async def test_what_follows_a_batch_that_was_put_off_is_put_off_with_it(line: Line) -> None:
    """Messaging is back for the second, but the first is not in the topic yet; the edge begins again with the first."""
    line.door.fail.append(RemoteError("a proxy answered with a page"))
    line.send(1, item(0))
    line.send(2, item(1), follows=True)
    line.send(3, item(0), stream="iothub_5")
    answers = {answer.parent_id: answer for answer in [await line.answer() for _ in range(3)]}
    assert answers[3] == message.Ack(parent_id=3)
    assert [(answers[n].code, answers[n].retry_after) for n in (1, 2)] == [
        ("messaging_unavailable", upstream_publisher.NOT_NOW_SECONDS),
        ("behind_put_off", upstream_publisher.NOT_NOW_SECONDS),
    ]
    line.send(4, item(0))
    line.send(5, item(1), follows=True)
    assert [await line.answer(), await line.answer()] == [message.Ack(parent_id=4), message.Ack(parent_id=5)]
    assert await line.stored() == ["m0", "m0", "m1"]
    assert line.desk.counts.upstream_deferred == {"messaging_unavailable": 1, "behind_put_off": 1}


@pytest.mark.slow
async def test_streams_without_end_are_malformed(line: Line) -> None:
    """An edge has one for each priority; memory does not grow with names it invents."""
    with pytest.raises(Malformed, match="streams"):
        for number in range(upstream_publisher.STREAMS_MAX + 1):
            line.send(number + 1, item(0), stream=f"s{number}")


async def test_a_topic_deleted_meanwhile_is_made_again(line: Line) -> None:
    """A missing topic is no reason to drop anything."""
    assert line.topics is not None
    assert (await line.topics.ask("DELETE", "topics/telemetry")).status == 200
    line.send(1, item(0))
    assert await line.answer() == message.Ack(parent_id=1)
    assert await line.stored() == ["m0"]


async def test_a_deferred_topic_has_an_order_of_its_own(line: Line) -> None:
    """Others of the stream are stored, what follows of the topic waits; apart, its messages go when they can."""
    line.door.fail.append(Busy("over the quota", code="over_quota", status=429, retry_after_seconds=7.0))
    line.send(1, item(0), item(1, topic="shop/alarms"))
    line.send(2, item(2), item(3, topic="shop/alarms"), follows=True)
    first, second = await line.answer(), await line.answer()
    assert [(each.index, each.code, each.retry_after) for each in first.deferred] == [(0, "over_quota", 7.0)]
    assert [(each.index, each.code) for each in second.deferred] == [(0, publish_batch.BEHIND)]
    line.send(3, item(0), item(2), topic="default/telemetry")
    assert await line.answer() == message.Ack(parent_id=3)
    assert await line.stored() == ["m0", "m2"]
    assert line.desk.counts.upstream_deferred == {"over_quota": 1, publish_batch.BEHIND: 1}


async def test_a_batch_is_answered_before_its_edge_gives_up(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes to one topic after the other may each take half a minute: what was not tried is deferred."""
    monkeypatch.setattr(upstream_publisher, "BATCH_SECONDS_MAX", 0.0)
    spec = {"routes": {"r": {"route": "FROM /* INTO $upstream", "topic": "default/alarms"}}}
    line.core.put("main", ROUTES, namespace="", spec=spec)
    line.edge.ack(*line.edge.sent())
    line.send(1, item(0), item(1, topic="default/alarms"))
    [deferred] = (await line.answer()).deferred
    assert (deferred.index, deferred.code, deferred.in_doubt) == (1, "messaging_slow", False)
    assert await line.stored() == ["m0"]


async def test_topics_of_edge_routes_are_made_before_anything_is_published(line: Line) -> None:
    """A route's topic needs no administrator."""
    spec = {"routes": {"r": {"route": "FROM /* INTO $upstream", "topic": "default/alarms"}}}
    line.core.put("main", ROUTES, namespace="", spec=spec)
    line.edge.ack(*line.edge.sent())
    await line.desk.ensure_topics()
    line.send(1, item(0, topic="default/alarms"))
    assert await line.answer() == message.Ack(parent_id=1)
    assert await line.stored("alarms") == ["m0"]


async def test_topics_are_tried_again_while_messaging_is_away() -> None:
    """It may start after the hub."""
    core = Core("edge-1")
    async with AsyncClient("http://127.0.0.1:9") as client:
        desk = UpstreamPublisher(core.hub, client, window=2)
        await desk.ensure_topics()
        assert desk._ready == set()


async def test_a_namespace_that_takes_no_more_topics_keeps_no_others_from_being_made() -> None:
    """Its quota is used up; only away as a whole ends the round."""
    async with serving(quotas=[{"namespace": "full", "topics": 0}]) as topics, AsyncClient(topics.url) as client:
        core = Core("edge-1")
        desk = UpstreamPublisher(core.hub, client, window=2)
        for index, name in enumerate(("full/a", "full/b", "room/a", "room/b")):
            route = {"route": "FROM /* INTO $upstream", "topic": name}
            core.put(f"routes-{index}", ROUTES, namespace="", spec={"routes": {f"r{index}": route}})
        await desk.ensure_topics()
        assert desk._ready == {"default/telemetry", "room/a", "room/b"}


async def test_before_everything_is_listed_it_is_not_now() -> None:
    """A hub that just started must not refuse what was granted before."""
    async with serving() as topics, AsyncClient(topics.url) as client:
        core = Core("edge-1", listed=False)
        line = Line(core, UpstreamPublisher(core.hub, Door(client), window=2), Door(client), topics)
        line.send(1, item(0))
        answer = await line.answer()
        assert (answer.code, answer.permanent) == ("starting", False)


@pytest.mark.parametrize("content", [b"{", b"\xff", b'[{"id":"\xff"}]', b'[{"x":' + b"[" * 50_000])
async def test_a_batch_that_is_none_ends_the_session_with_the_reason(line: Line, content: bytes) -> None:
    """And no other session."""
    line.send(1, content=content)
    answer = await line.answer()
    assert isinstance(answer, message.Refuse) and answer.code == "protocol" and answer.reason
    assert line.desk.counts.malformed == 1


async def test_a_session_that_ended_is_forgotten(line: Line) -> None:
    """What was not answered, the edge sends again; nothing is published for it any more."""
    line.door.open.clear()
    line.send(1, item(0))
    line.send(2, item(1))
    await until(lambda: line.door.published)
    line.desk.forget(line.edge.ref)
    line.door.open.set()
    await until(lambda: not line.desk._tasks)
    assert len(line.door.published) == 1


async def test_a_batch_goes_on_in_the_trace_of_its_header() -> None:
    """From its arrival to the answer, and on to messaging; what is no trace context is none."""
    spans, kept = spans_in_memory()
    async with lines(spans) as line:
        for traceparent in (str(place(5)), "nonsense", str(place(6, sampled=False)), None):
            line.send(len(line.door.traceparents) + 1, item(len(line.door.traceparents)), traceparent=traceparent)
            assert isinstance(await line.answer(), message.Ack)
        line.door.unreachable, line.door.fail = True, [Unreachable("no process listens")]
        line.send(9, item(9), traceparent=str(place(7)))
        assert isinstance(await line.answer(), message.Nack)
        traceparents = line.door.traceparents
    first, second = kept.kept
    assert (first.name, first.kind, first.parent, first.failure) == ("upstream batch", "server", place(5), "")
    assert (first.attributes["fairlead.node"], first.attributes["fairlead.answer"]) == ("edge-1", "ack")
    assert traceparents == [str(first.trace), None, None, None, str(second.trace)]
    assert (second.parent, second.failure) == (place(7), "messaging_away")


async def test_a_hub_that_records_nothing_passes_over_the_header(line: Line) -> None:
    line.send(1, item(0), traceparent=str(place(5)))
    assert await line.answer() == message.Ack(parent_id=1)
    assert line.door.traceparents == [None]


@pytest.mark.process
async def test_a_topic_that_messaging_forbids_waits_alone(tmp_path: Path) -> None:
    """The program itself with mTLS and access rules, killed and started with a grant: each message once, in order."""
    access = '[[access]]\nsubject = "ingest"\nverbs = ["{}"]\ntopics = [{}]\n'
    rules = access.format("create", '"*"') + access.format("consume", '"*"')
    denied, granted = (rules + access.format("publish", topics) for topics in ('"default/*"', '"*"'))
    service = MessagingService(tmp_path, authority=Authority(tmp_path / "pki"), more=denied)
    await asyncio.to_thread(service.start)
    try:
        async with AsyncClient(service.url, tls=service.tls) as client:
            core = Core("edge-1", messaging_url=service.url)
            door = Door(client)
            desk = UpstreamPublisher(core.hub, door, window=2)
            line = Line(core, desk, door, None)
            spec = {"routes": {"r": {"route": "FROM /* INTO $upstream", "topic": "shop/alarms"}}}
            core.put("main", ROUTES, namespace="", spec=spec)
            line.edge.ack(*line.edge.sent())
            await desk.ensure_topics()
            line.send(1, item(0), item(1, topic="shop/alarms"), item(2), item(3, topic="shop/alarms"))
            [deferred] = (await line.answer()).deferred
            assert (deferred.index, deferred.code) == (1, "messaging_denied")
            line.send(2, item(4, topic="shop/alarms"), item(5), follows=True)
            [behind] = (await line.answer()).deferred
            assert (behind.index, behind.code) == (0, "behind_put_off")

            await asyncio.to_thread(service.kill)
            service.set(granted)
            await asyncio.to_thread(service.start)
            again = [item(n, topic="shop/alarms") for n in (1, 3, 4)]
            line.send(3, *again, topic="shop/alarms")
            assert await line.answer() == message.Ack(parent_id=3)
        for topic, numbers in (("default/telemetry", [0, 2, 5]), ("shop/alarms", [1, 3, 4])):
            payloads = await asyncio.to_thread(service.payloads, topic)
            assert [msgspec.json.decode(payload)["sequence"] for payload in payloads] == numbers
    finally:
        await asyncio.to_thread(service.stop)
