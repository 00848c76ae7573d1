"""Reports to a hub that answers this or that, or goes away; and rules that come from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Remove
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

KIND = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
RULES = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", allowed=True)])
ACK = message.Ack(parent_id=1)


class Hub:
    """Answers each report as ``answer`` says; ``got``: names and statuses."""

    def __init__(self) -> None:
        self.takes_reports = True
        self.answer: Callable[[str], message.Ack | message.Nack] = lambda name: ACK
        self.got: list[tuple[str, Any]] = []
        self.opened: list[Callable[[], None]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def on_open(self, listener: Callable[[], None]) -> None:
        self.opened.append(listener)

    async def send_report(
        self, resource: str, uid: str, force: message.Force, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack:
        name = resource.rpartition("/")[2]
        self.got.append((name, msgspec.json.decode(codec.unpack(encoding, content))))
        await self.gate.wait()
        if not self.takes_reports:
            raise LinkDown("gone")
        return self.answer(name)

    def back(self) -> None:
        self.takes_reports = True
        for listener in self.opened:
            listener()


class Site:
    def __init__(self) -> None:
        self.hub, self.store = Hub(), MemoryMetastore()
        self.sender = StatusSender(self.store.statuses, self.store.log, Random(1))
        self.sender.follow(self.hub)

    async def report(self, name: str, value: int) -> None:
        asked = StatusPatch(operation="Update", manager="me", status={"value": value})
        await self.store.statuses.patch(("", "configmaps", "shop", name), "v1", KIND, asked, 0.0)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the sender says nothing when it is done
                await asyncio.sleep(0.001)

    def states(self) -> dict[str, str]:
        return {line.key[3]: line.state for line in self.sender.lines}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.store.apply([put(config_map(name)) for name in "abc"], now=0.0)
    await made.store.statuses.replace_rules(RULES, digest.content_digest(RULES))
    running = asyncio.create_task(made.sender.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_each_goes_up_once_and_is_settled(site: Site) -> None:
    for name in "abc":
        await site.report(name, 1)
    await site.until(lambda: set(site.states().values()) == {"written"})
    assert sorted(name for name, _ in site.hub.got) == ["a", "b", "c"]
    assert {line.state for line in await site.store.statuses.lines()} == {"written"}


async def test_only_the_newest_goes_after_the_one_under_way(site: Site) -> None:
    site.hub.gate.clear()
    await site.report("a", 1)
    await site.until(lambda: len(site.hub.got) == 1)
    for value in range(2, 6):
        await site.report("a", value)
    site.hub.gate.set()
    await site.until(lambda: site.states()["a"] == "written")
    assert [status["value"] for _, status in site.hub.got] == [1, 5]


async def test_a_refusal_for_good_is_kept_and_not_repeated(site: Site) -> None:
    site.hub.answer = lambda name: message.Nack(parent_id=1, code="invalid", reason="no", permanent=True)
    await site.report("a", 1)
    await site.until(lambda: site.states()["a"] == "refused")
    site.hub.back()
    site.hub.answer = lambda name: ACK
    await site.report("b", 1)
    await site.until(lambda: site.states()["b"] == "written")
    assert [name for name, _ in site.hub.got] == ["a", "b"]
    [first, _] = site.sender.lines
    assert (first.code, first.reason) == ("invalid", "no")


@pytest.mark.slow
async def test_what_is_put_off_goes_again(site: Site) -> None:
    answers: list[message.Ack | message.Nack] = [message.Nack(parent_id=1, code="busy", reason="later"), ACK]
    site.hub.answer = lambda name: answers.pop(0)
    await site.report("a", 1)
    await site.until(lambda: site.states()["a"] == "written")
    assert site.sender.counters["put_off"] == 1 and len(site.hub.got) == 2


async def test_what_a_lost_link_took_goes_in_the_next_session(site: Site) -> None:
    site.hub.gate.clear()
    await site.report("a", 1)
    await site.until(lambda: len(site.hub.got) == 1)
    site.hub.takes_reports = False
    site.hub.gate.set()
    await site.until(lambda: site.sender.counters["lost"] == 1)
    await site.report("b", 1)
    assert site.states() == {"a": "waiting", "b": "waiting"}
    site.hub.back()
    await site.until(lambda: set(site.states().values()) == {"written"})


async def test_what_goes_with_its_object_is_not_sent(site: Site) -> None:
    site.hub.takes_reports = False
    await site.report("a", 1)
    a = put(config_map("a"))
    await site.store.apply([Remove(resource=a.resource, uid=a.uid)], now=1.0)
    assert site.states() == {}
    await site.report("b", 1)
    site.hub.back()
    await site.until(lambda: site.states() == {"b": "written"})
    assert [name for name, _ in site.hub.got] == ["b"]


async def test_rules_of_the_hub_are_kept(site: Site) -> None:
    site.sender.rules_received(message.StatusRules(), b"")
    await site.until(lambda: site.sender.rules_digest == "")
    encoding, packed = codec.pack(RULES)
    site.sender.rules_received(message.StatusRules(digest="wrong", encoding=encoding), packed)
    told = message.StatusRules(digest=digest.content_digest(RULES), encoding=encoding)
    site.sender.rules_received(told, packed)
    await site.until(lambda: site.sender.rules_digest == told.digest)
