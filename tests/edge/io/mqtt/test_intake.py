"""What connections publish, stored together: order, patience, dead letters, pressure; the store is a fake."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.mqtt import intake as intakes
from fairlead_edge.io.mqtt.intake import Intake, ResumeQueue
from fairlead_edge.io.outbox.publisher import Gathered
from fairlead_edge.mqtt.packets import PublishPacket
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import PublishOutcome, ReceivedPublish
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox.outbox import RefusedMessage
from fairlead_edge.outbox.publishing import Accepted, DeliveryView, NotAccepted, RefusalReason, Submission
from fairlead_wire.errors import Temporary


class Connection:
    def __init__(self, module: str = "", level: int = 4) -> None:
        self.module, self.level = module, level
        self.outcomes: list[PublishOutcome] = []
        self.refused: MqttRefused | None = None
        self.holds: list[bool] = []

    def hold(self, is_held: bool) -> None:
        self.holds.append(is_held)

    def stored(self, outcomes: Sequence[PublishOutcome]) -> None:
        self.outcomes += outcomes

    def refuse(self, refused: MqttRefused) -> None:
        self.refused = refused


class Store:
    """Takes everything while ``failing`` is None."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, list[str]]]] = []
        self.letters: list[tuple[str, str]] = []
        self.failing: Callable[[], Exception] | None = None
        self.letters_failing: Exception | None = None
        self.has_no_room: set[str] = set()
        self.tries = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def store_gathered(self, gathered: Sequence[Gathered]) -> list[Accepted | NotAccepted]:
        await self.gate.wait()
        if self.failing is not None:
            raise self.failing()
        self.tries += 1
        if any(
            item.source in self.has_no_room
            for each in gathered
            for item in each.submissions
            if isinstance(item, Submission)
        ):
            raise StoreFull("full")
        self.batches.append(
            [
                (each.module, [item.source for item in each.submissions if isinstance(item, Submission)])
                for each in gathered
            ]
        )
        return [_result(item.source) for each in gathered for item in each.submissions if isinstance(item, Submission)]

    async def refuse_for_good(self, refused: Sequence[RefusedMessage]) -> None:
        if self.letters_failing is not None:
            raise self.letters_failing
        self.letters += [(each.code, each.entry.references[0].queue.endpoint) for each in refused]


def _result(source: str) -> Accepted | NotAccepted:
    if source == "large":
        return NotAccepted(RefusalReason("too_large", "it is"))
    return Accepted("id", [DeliveryView("iothub", 1, None)] if source != "unrouted" else [])


def _has(client: Connection, outcomes: int) -> bool:
    return len(client.outcomes) == outcomes


def _is_noticed(client: Connection) -> bool:
    return bool(client.holds) or client.refused is not None


def received(source: str | RefusalReason, packet: int = 1, qos: int = 1, payload: bytes = b"") -> ReceivedPublish:
    content = source if isinstance(source, RefusalReason) else Submission(source=source)
    return ReceivedPublish(PublishPacket("t", payload, qos, packet if qos else 0), content)


class Bench:
    def __init__(self, **more: Any) -> None:
        self.store, self.counters, self.overloaded = Store(), Counters(), list[bool]()
        self.time = 0.0
        self.intake = Intake(
            self.store, node="edge-1", counters=self.counters, overloaded=self.overloaded.append,
            new_id=lambda: "ab" * 16, timestamp=lambda: "2026-11-22T10:00:00Z", clock=lambda: self.time, **more,
        )  # fmt: skip

    async def done(self) -> None:
        await self.intake.drain(60)
        assert (self.intake.waiting, self.intake.waiting_bytes, self.intake.held_bytes) == (0, 0, 0)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_all_connections_go_in_one_step_and_each_keeps_its_order() -> None:
    bench, one, two = Bench(), Connection("a"), Connection("b")
    bench.intake.add(one, [received("1", 1), received("2", 2)])
    bench.intake.add(two, [received("3", 1)])
    bench.intake.add(one, [received("4", 3)])
    await bench.done()
    assert bench.store.batches == [[("a", ["1", "2"]), ("b", ["3"]), ("a", ["4"])]]
    assert [each.message.packet for each in one.outcomes] == [1, 2, 3]
    assert [each.code for each in two.outcomes] == [Code.SUCCESS]
    assert bench.counters.published == Counter({1: 4})


async def test_what_comes_meanwhile_is_the_next_batch() -> None:
    bench, one = Bench(), Connection()
    bench.store.gate.clear()
    bench.intake.add(one, [received("1")])
    await asyncio.sleep(0)
    bench.intake.add(one, [received("2")])
    bench.intake.add(one, [received("3")])
    bench.store.gate.set()
    await bench.done()
    assert bench.store.batches == [[("", ["1"])], [("", ["2", "3"])]]


async def test_nothing_is_acknowledged_before_it_is_stored() -> None:
    bench, one = Bench(), Connection()
    bench.store.gate.clear()
    bench.intake.add(one, [received("1")])
    for _ in range(5):
        await asyncio.sleep(0)
    assert one.outcomes == []
    bench.store.gate.set()
    await bench.done()
    assert len(one.outcomes) == 1


async def test_an_unrouted_message_is_said_so() -> None:
    bench, one = Bench(), Connection(level=5)
    bench.intake.add(one, [received("unrouted")])
    await bench.done()
    assert [each.code for each in one.outcomes] == [Code.NO_MATCHING_SUBSCRIBERS]


async def test_a_refusal_for_good_is_a_code_in_5_and_a_dead_letter_in_3() -> None:
    bench, old, new = Bench(), Connection(level=4), Connection(level=5)
    bad = RefusalReason("bad_source", "why")
    for each in (old, new):
        bench.intake.add(each, [received("1", 1), received(bad, 2), received("large", 3), received(bad, qos=0)])
    await bench.done()
    codes = [Code.SUCCESS, Code.TOPIC_NAME_INVALID, Code.PACKET_TOO_LARGE, Code.TOPIC_NAME_INVALID]
    assert [each.code for each in new.outcomes] == codes
    assert [each.message.packet for each in old.outcomes] == [1, 2, 3, 0]
    assert bench.store.letters == [("bad_source", "edge-1/$mqtt/refused"), ("too_large", "edge-1/$mqtt/refused")]
    assert bench.counters.refused == Counter(topic_name_invalid=4, packet_too_large=2)


@pytest.mark.slow
async def test_what_cannot_be_stored_now_is_stored_later() -> None:
    bench, one = Bench(), Connection()
    errors = iter([Temporary("busy")])

    def fail() -> Exception:
        bench.store.failing = None
        return next(errors)

    bench.store.failing = fail
    bench.intake.add(one, [received("1")])
    await bench.done()
    assert len(one.outcomes) == 1
    assert one.refused is None


async def test_what_cannot_be_stored_for_long_ends_its_connections() -> None:
    for error, code in ((StoreFull("full"), Code.QUOTA_EXCEEDED), (Temporary("no routes"), Code.SERVER_BUSY)):
        bench, one = Bench(patience_seconds=0.0), Connection()
        bench.store.failing = lambda error=error: error
        bench.intake.add(one, [received("1"), received("2", qos=0)])
        await bench.done()
        assert one.outcomes == []
        assert one.refused is not None
        assert one.refused.code is code
        assert bench.counters.refused == Counter({code.label: 1})


async def test_a_dead_letter_that_cannot_be_kept_is_not_acknowledged() -> None:
    bench, one, two = Bench(patience_seconds=0.0), Connection(), Connection()
    bench.store.letters_failing = StoreFull("full")
    bench.intake.add(one, [received(RefusalReason("bad_source", "why"))])
    bench.intake.add(two, [received("1")])
    await bench.done()
    assert one.outcomes == []
    assert one.refused is not None
    assert len(two.outcomes) == 1
    assert len(bench.store.batches) == 1


async def test_too_much_that_waits_stops_the_reading_until_half_is_stored() -> None:
    bench, one = Bench(), Connection()
    bench.store.gate.clear()
    for _ in range(5):
        bench.intake.add(one, [received("1", payload=b"x" * (1 << 20))])
    assert bench.overloaded == [True]
    bench.store.gate.set()
    await bench.done()
    assert bench.overloaded == [True, False]
    bench.store.gate.clear()
    small = intakes.UNSTORED_BYTES_MAX // intakes.MESSAGE_COST_BYTES + 1
    bench.intake.add(one, [received("1")] * small)
    assert bench.intake.is_overloaded
    bench.store.gate.set()
    await bench.done()


@pytest.mark.slow
async def test_a_message_without_room_delays_only_its_own_connection() -> None:
    """Its neighbours of the same batch and of later ones are stored and acknowledged at once, in order."""
    bench = Bench()
    clients = [Connection(f"m{number}") for number in range(20)]
    big = [clients[3], clients[11]]
    bench.store.has_no_room = {"big"}
    for client in clients:
        more = [received("big", 2), received("3", 3)] if client in big else [received("2", 2)]
        bench.intake.add(client, [received("1", 1), *more])
    others = [each for each in clients if each not in big]
    await bench.until(lambda: all(len(each.outcomes) == 2 for each in others))
    await bench.until(lambda: all(len(each.outcomes) == 1 for each in big) and bench.intake.waiting == 4)
    assert not any(each.holds for each in big)  # little waits: their pings are answered
    for count in (3, 4):
        bench.intake.add(clients[0], [received("1", count)])
        await bench.until(partial(_has, clients[0], count))
    assert not bench.intake.is_overloaded and bench.intake.waiting == 4
    bench.store.has_no_room = set()
    await bench.until(lambda: all(len(each.outcomes) == 3 for each in big))
    assert [each.message.packet for each in big[0].outcomes] == [1, 2, 3]
    stored = [
        source for batch in bench.store.batches for module, sources in batch if module == "m3" for source in sources
    ]
    assert stored == ["1", "big", "3"]
    await bench.done()


async def test_a_message_without_room_for_long_ends_only_its_own_connection() -> None:
    bench, one, two = Bench(patience_seconds=0.0), Connection(), Connection()
    bench.store.has_no_room = {"big"}
    bench.intake.add(one, [received("1", 1), received("big", 2), received("3", 3), received("4", qos=0)])
    bench.intake.add(two, [received("1", 1)])
    await bench.done()
    assert [each.message.packet for each in one.outcomes] == [1]
    assert one.refused is not None and one.refused.code is Code.QUOTA_EXCEEDED
    assert two.refused is None and len(two.outcomes) == 1
    assert bench.counters.refused == Counter(quota_exceeded=1)


@pytest.mark.slow
async def test_waiting_messages_are_bounded_and_do_not_stop_reading() -> None:
    """Over the bound the connection with most of it ends, and repeats it."""
    bench = Bench()
    bench.store.has_no_room = {"big"}
    clients = [Connection(f"m{number}") for number in range(6)]
    for number, client in enumerate(clients):
        bench.intake.add(client, [received("big", payload=b"x" * (700_000 + number * 50_000))])
        await bench.until(partial(_is_noticed, client))
        await bench.until(lambda: bench.intake.waiting_bytes == 0)
    await bench.until(lambda: bench.intake.held_bytes <= intakes.HELD_BYTES_MAX)
    assert [each.refused is not None for each in clients] == [False] * 5 + [True]
    assert bench.overloaded == []
    assert [each.holds for each in clients[:5]] == [[True]] * 5
    bench.store.has_no_room = set()
    await bench.done()
    assert [each.holds for each in clients[:5]] == [[True, False]] * 5
    assert [len(each.outcomes) for each in clients] == [1] * 5 + [0]


async def test_a_full_store_is_not_asked_for_each_of_many() -> None:
    bench = Bench(patience_seconds=0.0)
    bench.store.has_no_room = {"big"}
    clients = [Connection(f"m{number}") for number in range(1000)]
    for client in clients:
        bench.intake.add(client, [received("big")])
    await bench.done()
    assert bench.store.tries < 2 * intakes.TRIES_MAX
    assert all(client.refused for client in clients)


# ---- connections that wait to be read again: each has its turn, however much the others send -------------------------


class World:
    """Connections by name; one that floods leaves no room for others when it is read."""

    def __init__(self, floods: str) -> None:
        self.is_overloaded = False
        self.floods = floods
        self.read: list[str] = []
        self.soon: list[Callable[[], None]] = []
        self.turns = ResumeQueue(soon=self.soon.append, is_overloaded=lambda: self.is_overloaded)
        self.connections: list[Waiter] = []

    def press(self) -> None:
        self.is_overloaded = True
        self.turns.hold(self.connections)

    def release(self) -> None:
        self.is_overloaded = False
        self.turns.resume()
        while self.soon:
            self.soon.pop(0)()


class Waiter:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        world.connections.append(self)

    def update_reading(self) -> None:
        if not self.world.is_overloaded:
            self.world.read.append(self.name)
            if self.name in self.world.floods:
                self.world.press()


def test_one_that_floods_does_not_keep_the_others_waiting() -> None:
    world = World("FG")
    for name in "FGabc":
        Waiter(world, name)
    world.press()
    for _ in range(20):
        world.release()
    assert min(world.read.count(name) for name in "abc") >= 5
    assert len(world.turns) == 5


def test_all_are_read_when_there_is_room() -> None:
    world = World("")
    for name in "abc":
        Waiter(world, name)
    world.press()
    world.release()
    world.release()
    assert (world.read, len(world.turns)) == (["a", "b", "c"], 0)


def test_one_that_is_gone_has_no_turn() -> None:
    world = World("")
    first = Waiter(world, "a")
    Waiter(world, "b")
    world.press()
    world.turns.remove(first)
    world.turns.remove(first)
    world.release()
    assert world.read == ["b"]
