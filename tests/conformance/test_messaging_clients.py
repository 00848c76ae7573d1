"""One suite over both messaging clients, asyncio and synchronous, against the real service process, also with mTLS."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.joining.pki import Authority
from tests.support.lines.flaky_proxy import flaky
from tests.support.topics.messaging_clients import KINDS, Client, Table
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client import errors, transaction
from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.client.retry import PATIENT
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError, Permanent, RemoteError, Temporary

pytestmark = pytest.mark.process

QUICK = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=0.02, maximum_delay=0.2, backoff_retries=4,
    maximum_delay_retries=100, total_seconds_max=30,
)  # fmt: skip
ONCE_MORE = DeliveryPolicy(retries_with_no_delay=3, minimum_delay_retries=0, backoff_retries=0, maximum_delay_retries=0)
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["insecure", "mtls"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    folder = tmp_path_factory.mktemp(request.param)
    authority = Authority(folder / "pki") if request.param == "mtls" else None
    with MessagingService(folder, authority=authority) as running:
        yield running


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    """For tests in which a proxy stands between, and reads."""
    with MessagingService(tmp_path_factory.mktemp("plain")) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def client(kind: str, service: MessagingService) -> AsyncIterator[Client]:
    async with Client(kind, service.url, tls=service.tls) as asking:
        yield asking


@pytest.fixture
def topic() -> tuple[str, str]:
    return "suite", f"t{next(_numbers)}"


async def test_topics_are_created_changed_listed_and_deleted(client: Client) -> None:
    """Created once; created again says so and changes nothing."""
    namespace = f"n{next(_numbers)}"
    assert await client.ask.create_topic(namespace, "t", {"ttl": 5, "owner": "x"})
    assert not await client.ask.create_topic(namespace, "t", {"owner": "y"})
    assert await client.ask.topics(namespace) == ["t"]
    found = await client.ask.topic(namespace, "t")
    assert (found["ttl"], found["owner"]) == ("5", "x")
    await client.ask.update_topic(namespace, "t", {"owner": "z"})
    assert (await client.ask.topic(namespace, "t"))["owner"] == "z"
    await client.ask.delete_topic(namespace, "t")
    assert await client.ask.topics(namespace) == []
    with pytest.raises(errors.TopicMissing):
        await client.ask.delete_topic(namespace, "t")


async def test_bytes_go_in_and_the_same_bytes_come_out(client: Client, topic: tuple[str, str]) -> None:
    """In order, page by page, from a start or from the beginning."""
    await client.ask.create_topic(*topic)
    await client.ask.publish(*topic, [b"\x00\xff", b"", b"c"])
    await client.ask.publish(*topic, [b"d"], ttl_seconds=60)
    page = await client.ask.poll(*topic, limit=3)
    assert [each.payload for each in page.messages] == [b"\x00\xff", b"", b"c"]
    rest = await client.ask.poll(*topic, start_from=page.next_position, inclusive=False)
    assert [each.payload for each in rest.messages] == [b"d"]
    assert rest.messages[0].published_ms > 1_700_000_000_000
    assert (await client.ask.poll(*topic, start_from=rest.next_position, inclusive=False, wait_ms=1)).messages == ()
    assert await client.payloads(*topic, start_from=page.messages[1].id) == [b"", b"c", b"d"]
    assert [row.payload for row in await client.ask.inspect(*topic, limit=2)] == [b"\x00\xff", b""]


async def test_a_producer_learns_what_was_known(client: Client, topic: tuple[str, str]) -> None:
    """By its first sequence, or one each; a newer epoch may fence the older."""
    await client.ask.create_topic(*topic)
    first = Producer(id="p", epoch=2**53 - 1, sequence=5)
    assert (await client.ask.publish(*topic, [b"a", b"b"], producer=first)).stored == (5, 6)
    assert (await client.ask.publish(*topic, [b"a", b"b"], producer=first)).known == (5, 6)
    each = Producer(id="q", epoch=1, sequences=[9, 7])
    assert (await client.ask.publish(*topic, [b"c", b"d"], producer=each)).stored == (9, 7)
    await client.ask.publish(*topic, [b"e"], producer=Producer(id="q", epoch=2, sequence=0, fence=True))
    with pytest.raises(errors.Fenced):
        await client.ask.publish(*topic, [b"f"], producer=Producer(id="q", epoch=1, sequence=10))


async def test_following_sees_what_comes_and_ends_with_its_reader(client: Client, topic: tuple[str, str]) -> None:
    """Without asking again and again: the service holds the question until there is something."""
    await client.ask.create_topic(*topic)
    await client.ask.publish(*topic, [b"old"])
    seen = []
    async for message in client.messages(*topic, follow=True):
        seen.append(message.payload)
        if len(seen) == 3:
            break
        await client.ask.publish(*topic, [b"new %d" % len(seen)])
    assert seen == [b"old", b"new 1", b"new 2"]


async def test_a_transaction_by_hand(client: Client, topic: tuple[str, str]) -> None:
    """Published, stored, rolled back, committed; who holds up whom is listed."""
    await client.ask.create_topic(*topic)
    started = await client.ask.start_transaction(20)
    pointer = started.transactionWritePointer
    detail = await client.ask.publish_in(pointer, *topic, [b"taken back"])
    await client.ask.roll_back(*topic, detail)
    await client.ask.store_in(pointer, *topic, [b"a", b"b"])
    await client.ask.publish_in(pointer, *topic, [])
    assert await client.payloads(*topic) == []
    mine = await client.ask.poll(*topic, transaction=started.transaction)
    assert [each.payload for each in mine.messages] == [b"a", b"b"]
    [listed] = [each for each in await client.ask.transactions() if each.transactionWritePointer == pointer]
    assert [held.topic for held in listed.topics] == ["/".join(topic)]
    await client.ask.finish_transaction(pointer, "commit")
    assert await client.payloads(*topic) == [b"a", b"b"]
    assert {row.state for row in await client.ask.inspect(*topic)} == {"hidden", "visible"}
    with pytest.raises(errors.TransactionOver) as over:
        await client.ask.finish_transaction(pointer, "commit")
    assert over.value.state == "committed"
    await client.ask.finish_transaction(pointer, "commit", may_be_done=True)


async def test_readers_positions_and_plans(client: Client, topic: tuple[str, str]) -> None:
    """What bulk readers ask, and how far they are."""
    await client.ask.create_topic(*topic)
    await client.ask.publish(*topic, [b"1", b"2", b"3"])
    plan = await client.ask.plan(*topic, after="", limit_rows=2)
    assert plan.rows == 2
    await client.ask.note_reader(*topic, "r", position=plan.upto, generation=plan.generation)
    assert [(each.name, each.lag_messages) for each in await client.ask.readers(*topic)] == [("r", 1)]
    assert (await client.ask.offsets(*topic, "latest")).stable == (await client.ask.plan(*topic, after="")).upto
    with pytest.raises(errors.GenerationChanged) as changed:
        await client.ask.plan(*topic, after="", generation=99)
    assert changed.value.generation == plan.generation


async def test_subscriptions_are_kept(client: Client, topic: tuple[str, str]) -> None:
    """With their policy; looked at, listed and ended."""
    await client.ask.create_topic(*topic)
    policy = DeliveryPolicy(minimum_delay=1, maximum_delay=2, retries_max=1)
    await client.ask.put_subscription(
        *topic, "s", url="http://127.0.0.1:9/", delivery=policy, dead_letter_topic="suite/dead"
    )
    found = await client.ask.subscription(*topic, "s")
    assert (found.name, found.effectiveDelivery, found.dead_letter_topic) == ("s", policy, "suite/dead")
    assert [each.name for each in await client.ask.subscriptions(*topic)] == ["s"]
    await client.ask.delete_subscription(*topic, "s")
    with pytest.raises(errors.Denied) as missing:
        await client.ask.subscription(*topic, "s")
    assert missing.value.code == "subscription_not_found"


async def test_policies_of_topics_and_of_subscriptions(client: Client, topic: tuple[str, str]) -> None:
    """As they were given, and the one that counts."""
    of_topic = DeliveryPolicy(minimum_delay=2, maximum_delay=4, ignore_subscription_override=True)
    assert await client.ask.create_topic(*topic, {"ttl": 60}, delivery=of_topic)
    given = {"minimum_delay": 2, "maximum_delay": 4, "ignore_subscription_override": True}
    assert (await client.ask.topic(*topic))["delivery"] == given
    url = "http://127.0.0.1:9/hook"
    await client.ask.put_subscription(*topic, "s", url=url, delivery=ONCE_MORE)
    found = await client.ask.subscription(*topic, "s")
    own = {"minimum_delay_retries": 0, "backoff_retries": 0, "maximum_delay_retries": 0}
    assert (found.delivery, found.effectiveDelivery) == (own, of_topic)
    await client.ask.update_topic(*topic, {"ttl": 60})
    assert (await client.ask.subscription(*topic, "s")).effectiveDelivery == ONCE_MORE
    await client.ask.put_subscription(*topic, "s", url=url)
    found = await client.ask.subscription(*topic, "s")
    assert (found.delivery, found.effectiveDelivery) == (None, DeliveryPolicy())
    await client.ask.delete_subscription(*topic, "s")


async def test_stored_payloads_are_published_or_nothing_is(client: Client, topic: tuple[str, str]) -> None:
    """Rows after them are refused, and so is a commit that would lose them."""
    await client.ask.create_topic(*topic)
    started = await client.ask.start_transaction()
    pointer = started.transactionWritePointer
    await client.ask.store_in(pointer, *topic, [b"a"])
    with pytest.raises(errors.StoredAlready) as mixed:
        await client.ask.publish_in(pointer, *topic, [b"b"])
    assert (mixed.value.code, mixed.value.status) == ("stored_already", 400)
    with pytest.raises(errors.StoredUnpublished) as unpublished:
        await client.ask.finish_transaction(pointer, "commit")
    assert (unpublished.value.status, unpublished.value.topics) == (409, ("/".join(topic),))
    await client.ask.publish_in(pointer, *topic, [])
    await client.ask.finish_transaction(pointer, "commit")
    assert [each.payload for each in (await client.ask.poll(*topic, read_committed=True)).messages] == [b"a"]


async def test_names_are_never_paths(client: Client) -> None:
    """What is no name is refused by the service; it does not become another request."""
    for name in ("../../transactions", "a/b", "a?x=1", "a#b", "ä b", ".."):
        with pytest.raises(Permanent) as refused:
            await client.ask.create_topic("suite", name)
        assert refused.value.code in ("bad_name", "no_such_path", "method_not_allowed"), name


async def test_refusals_carry_code_and_status(client: Client, topic: tuple[str, str]) -> None:
    """A missing topic differs from bad input and from too much of it."""
    with pytest.raises(errors.TopicMissing) as missing:
        await client.ask.publish(*topic, [b"a"])
    assert (missing.value.code, missing.value.status) == ("topic_not_found", 404)
    with pytest.raises(errors.Denied) as bad:
        await client.ask.create_topic(*topic, {"ttl": 0})
    assert (bad.value.code, bad.value.status) == ("bad_ttl", 400)
    await client.ask.create_topic(*topic)
    with pytest.raises(errors.TooLarge):
        await client.ask.publish(*topic, [bytes(13 * 2**20)])


async def test_work_is_visible_as_a_whole_or_not_at_all(client: Client, topic: tuple[str, str]) -> None:
    """Participants persist first, messages last; a failure anywhere hides everything and rolls everybody back."""
    await client.ask.create_topic(*topic)
    table = Table()
    async with client.work(table) as work:
        await work.publish(*topic, [b"a", b"b"])
        assert await client.payloads(*topic) == []
    assert await client.payloads(*topic) == [b"a", b"b"]
    assert table.asked == ["persist"]
    with pytest.raises(RuntimeError, match="persist"):
        async with client.work(table, failing := Table(failing="persist")) as work:
            await work.publish(*topic, [b"c"])
    assert (table.asked[-1], failing.asked) == ("rollback", ["persist", "rollback"])
    with pytest.raises(ZeroDivisionError):
        async with client.work(table) as work:
            raise ZeroDivisionError
    assert await client.payloads(*topic) == [b"a", b"b"]


async def test_work_that_cannot_be_rolled_back_is_invalidated(client: Client, topic: tuple[str, str]) -> None:
    """And says what could not be undone."""
    await client.ask.create_topic(*topic)
    with pytest.raises(ZeroDivisionError):
        async with client.work(Table(failing="rollback"), buffer_bytes_max=0) as work:
            await work.publish(*topic, [b"stored"])
            raise ZeroDivisionError
    assert [str(each) for each in work.failures] == ["rollback"]
    with pytest.raises(errors.TransactionOver) as over:
        await client.ask.finish_transaction(work.started.transactionWritePointer, "commit")
    assert over.value.state == "invalid"
    assert await client.payloads(*topic) == []


async def test_a_full_buffer_is_stored_on_the_way(client: Client, topic: tuple[str, str]) -> None:
    """Readers see one order, once, whatever was stored and what was not."""
    await client.ask.create_topic(*topic)
    async with client.work(buffer_bytes_max=10) as work:
        for number in range(9):
            await work.publish(*topic, [b"%04d" % number])
    assert await client.payloads(*topic) == [b"%04d" % number for number in range(9)]


async def test_the_loser_of_a_conflict_is_rolled_back(client: Client, topic: tuple[str, str]) -> None:
    """Two transactions changed one key: the first to commit wins."""
    await client.ask.create_topic(*topic)
    key, losing = f"k{next(_numbers)}", Table(changes=[])
    losing._changes = [key]
    with pytest.raises(errors.TransactionConflict):
        async with client.work(losing) as loser:
            await loser.publish(*topic, [b"loser"])
            async with client.work(Table(changes=[key])) as winner:
                await winner.publish(*topic, [b"winner"])
    assert losing.asked == ["persist", "rollback"]
    assert await client.payloads(*topic) == [b"winner"]


async def test_a_publisher_never_waits_and_counts(client: Client, topic: tuple[str, str]) -> None:
    """Everything in order; what finds no room is said and counted; flush and close send the rest."""
    await client.ask.create_topic(*topic)
    async with client.publisher(*topic, waiting_messages_max=2500) as publisher:
        for number in range(2500):
            assert publisher.publish(b"%d" % number)
        assert await publisher.flush(30)
        assert (publisher.published, publisher.waiting) == (2500, 0)
        publisher.publish(b"last")
    assert (publisher.published, publisher.dropped) == (2501, 0)
    assert await client.payloads(*topic) == [*(b"%d" % number for number in range(2500)), b"last"]
    with pytest.raises(LocalError):
        publisher.publish(b"too late")
    async with client.publisher(*topic, waiting_bytes_max=3) as small:
        assert not small.publish(b"abcd")
        assert small.dropped == 1


async def test_a_publisher_reports_what_was_refused(client: Client, topic: tuple[str, str]) -> None:
    """How many, and why; the next ones are tried again."""
    reported: list[tuple[int, Any]] = []
    async with client.publisher(*topic, on_drop=lambda count, error: reported.append((count, error))) as publisher:
        publisher.publish(b"a")
        assert await publisher.flush(30)
        await client.ask.create_topic(*topic)
        publisher.publish(b"b")
    assert [(count, error.code) for count, error in reported] == [(1, "topic_not_found")]
    assert (publisher.published, publisher.dropped) == (1, 1)
    assert await client.payloads(*topic) == [b"b"]


async def test_many_callers_share_one_client(client: Client, topic: tuple[str, str]) -> None:
    """Tasks or threads: each gets its own answer."""
    await client.ask.create_topic(*topic)
    await asyncio.gather(*(client.ask.publish(*topic, [b"%d" % number]) for number in range(50)))
    polled = await asyncio.gather(*(client.ask.poll(*topic, limit=number) for number in range(1, 51)))
    assert [len(page.messages) for page in polled] == list(range(1, 51))


# ── when answers are lost ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lost_answer_to_a_producer_is_asked_for_again(
    kind: str, plain: MessagingService, topic: tuple[str, str]
) -> None:
    """The same sequences: stored once, and known the second time."""
    async with flaky(plain.port) as between, Client(kind, between.url, retries=ONCE_MORE) as client:
        await client.ask.create_topic(*topic)
        between.lose(2, containing=b"/publish")
        answer = await client.ask.publish(*topic, [b"a", b"b"], producer=Producer(id="p", epoch=1, sequence=0))
        assert (between.lost, answer.stored, answer.known) == (2, (), (0, 1))
        assert await client.payloads(*topic) == [b"a", b"b"]


async def test_a_lost_answer_without_a_producer_is_in_doubt(
    kind: str, plain: MessagingService, topic: tuple[str, str]
) -> None:
    """It may have been stored, and it was: repeating it would be wrong, so the caller learns it."""
    async with flaky(plain.port) as between, Client(kind, between.url, retries=PATIENT) as client:
        await client.ask.create_topic(*topic)
        between.lose(1, containing=b"/publish")
        with pytest.raises(errors.NoAnswer) as lost:
            await client.ask.publish(*topic, [b"a"])
        assert lost.value.in_doubt
        assert await client.payloads(*topic) == [b"a"]


@pytest.mark.parametrize("how", ["create_topic", "delete_topic", "finish_transaction"])
async def test_a_change_whose_answer_was_lost_is_done(
    kind: str, plain: MessagingService, topic: tuple[str, str], how: str
) -> None:
    """Asked again it is found done, which is what was wanted."""
    async with flaky(plain.port) as between, Client(kind, between.url, retries=ONCE_MORE) as client:
        if how == "delete_topic":
            await client.ask.create_topic(*topic)
        pointer = (await client.ask.start_transaction()).transactionWritePointer
        between.lose(1)
        await (client.ask.finish_transaction(pointer, "commit") if how[0] == "f" else getattr(client.ask, how)(*topic))
        assert between.lost == 1
        assert (topic[1] in await client.ask.topics(topic[0])) == (how == "create_topic")


async def test_work_survives_the_loss_of_the_answer_to_its_commit(
    kind: str, plain: MessagingService, topic: tuple[str, str]
) -> None:
    """What was committed must not be rolled back, even if the client has no patience of its own."""
    table = Table()
    async with flaky(plain.port) as between, Client(kind, between.url) as client:
        await client.ask.create_topic(*topic)
        async with client.work(table) as work:
            await work.publish(*topic, [b"a"])
            between.lose(3, containing=b"/commit")
        assert between.lost == 3
        assert table.asked == ["persist"]
        assert await client.payloads(*topic) == [b"a"]


async def test_unconfirmed_work_is_in_doubt_and_can_be_found_out(
    kind: str, plain: MessagingService, topic: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rolled back; asking for an abort shows how it ended."""
    monkeypatch.setattr(transaction, "COMMIT_PAUSES_SECONDS", (0.0,))
    table = Table()
    async with flaky(plain.port) as between, Client(kind, between.url) as client:
        await client.ask.create_topic(*topic)
        with pytest.raises(errors.InDoubt) as doubt:
            async with client.work(table) as work:
                await work.publish(*topic, [b"a"])
                between.lose(100, containing=b"/commit")
        assert table.asked == ["persist"]
        with pytest.raises(errors.TransactionOver) as over:
            await client.ask.finish_transaction(doubt.value.pointer, "abort")
        assert over.value.state == "committed"
        assert await client.payloads(*topic) == [b"a"]


async def test_a_publisher_stores_once_whatever_gets_lost(
    kind: str, plain: MessagingService, topic: tuple[str, str]
) -> None:
    """It numbers its messages."""
    async with flaky(plain.port) as between, Client(kind, between.url) as client:
        await client.ask.create_topic(*topic)
        between.lose(2, containing=b"/publish")
        async with client.publisher(*topic, close_seconds=30) as publisher:
            for number in range(5):
                publisher.publish(b"%d" % number)
                await asyncio.sleep(0)
        assert publisher.published == 5
        assert await client.payloads(*topic) == [b"%d" % number for number in range(5)]


async def test_a_restart_is_waited_for_and_reading_goes_on(
    kind: str, tmp_path_factory: pytest.TempPathFactory, topic: tuple[str, str]
) -> None:
    """kill -9 while a reader follows: with patience it neither loses nor repeats a message."""
    with MessagingService(tmp_path_factory.mktemp("restarted")) as service:
        async with Client(kind, service.url, retries=QUICK) as client:
            await client.ask.create_topic(*topic)
            await client.ask.publish(*topic, [b"1"])
            seen = []
            async for message in client.messages(*topic, follow=True):
                seen.append(message.payload)
                if len(seen) == 3:
                    break
                await asyncio.to_thread(service.kill)
                await asyncio.to_thread(service.start)
                await client.ask.publish(*topic, [b"%d" % (len(seen) + 1)])
        assert seen == [b"1", b"2", b"3"]


# ── what else may answer ────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_service_is_unreachable(kind: str) -> None:
    """With the address in the sentence; nothing was sent, so nothing is in doubt."""
    async with Client(kind, "http://127.0.0.1:1") as client:
        with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:1") as failed:
            await client.ask.publish("a", "b", [b"c"])
        assert not failed.value.in_doubt


async def test_a_silent_service_is_timed_out(kind: str) -> None:
    """It accepts and never answers; how long was waited is in the error."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with Client(kind, url, timeout_seconds=0.1) as client:
            with pytest.raises(errors.TimedOut) as silent:
                await client.ask.topics("n")
            assert silent.value.seconds == 0.1


ANSWERS = {
    "not JSON": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", RemoteError),
    "not text": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe", RemoteError),
    "deep": (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n" + b"[" * 90, RemoteError),
    "something else": (b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}', RemoteError),
    "too long": (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200, RemoteError),
    "endless": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n" +
                b"64\r\n" + b"x" * 100 + b"\r\n", RemoteError),
    "cut short": (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n[]", errors.NoAnswer),
    "nothing": (b"", errors.Disconnected),
    "busy": (b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy", errors.Busy),
    "elsewhere": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", errors.Denied),
    "forbidden": (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", errors.NotAllowed),
    "nonsense": (b"nonsense\r\n\r\n", Temporary),
}  # fmt: skip


@pytest.mark.parametrize("what", ANSWERS)
async def test_responses_of_another_program_are_refused_with_a_message(kind: str, what: str) -> None:
    """Not our service, or one in trouble: an error that says what comes next, and redirects are not followed."""
    answer, expected = ANSWERS[what]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Client(kind, url, timeout_seconds=60, answer_bytes_max=100) as client:
        with pytest.raises(expected) as refused:
            await client.ask.topics("n")
    if what == "busy":
        assert isinstance(refused.value, errors.Busy) and refused.value.retry_after_seconds == 7
    server.close()


async def test_a_dripping_answer_ends_with_its_time(kind: str) -> None:
    """A byte now and then is not progress."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Client(kind, url, timeout_seconds=0.3) as client:
        with pytest.raises(errors.TimedOut):
            await client.ask.topics("n")
    server.close()


async def test_a_busy_service_is_asked_again_when_it_says(kind: str) -> None:
    """Not before; a plain publish too, for nothing was begun."""
    asked: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            asked.append(asyncio.get_running_loop().time())
            body = b'{"error":{"code":"overloaded","message":"later"}}'
            if len(asked) == 1:
                writer.write(b"HTTP/1.1 503 x\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with Client(kind, url, retries=ONCE_MORE) as client:
        await client.ask.publish("n", "t", [b"a"])
    assert asked[1] - asked[0] >= 1.0
    server.close()


@pytest.mark.parametrize("url", ["", "localhost:1", "ftp://h", "https://h:1", "http://h:port"])
async def test_a_bad_address_is_refused_at_once(kind: str, url: str) -> None:
    """Before anything is connected; https needs its files."""
    with pytest.raises(LocalError):
        Client(kind, url)


@pytest.mark.parametrize("service", ["mtls"], indirect=True)
async def test_strangers_are_not_talked_to(
    kind: str, tmp_path_factory: pytest.TempPathFactory, service: MessagingService
) -> None:
    """A certificate of another authority: temporary, for certificates get replaced; what we do not trust is named."""
    assert service.tls is not None
    stranger = Authority(tmp_path_factory.mktemp("other")).issue("ingest")
    forged = Tls(ca=service.tls.ca, cert=str(stranger.certificate), key=str(stranger.key))
    async with Client(kind, service.url, tls=forged) as client:
        with pytest.raises(Temporary):
            await client.ask.topics("n")
    unknown = Tls(ca=str(stranger.certificate), cert=service.tls.cert, key=service.tls.key)
    async with Client(kind, service.url, tls=unknown) as client:
        with pytest.raises(errors.Unreachable, match="certificate"):
            await client.ask.topics("n")
