"""What both buffered publishers are."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.topics.messaging import Topics
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher, BufferedPublisher, Publisher
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import FairleadError, LocalError, Permanent


def names(publisher: Publisher) -> tuple[Any, Any]:
    return publisher._buffer._producer_id, publisher._buffer._epoch


def test_every_run_has_a_name_of_its_own() -> None:
    """Made up when none is given: two runs that number alike must not be taken for one."""
    one, two = names(Publisher("n", "t")), names(Publisher("n", "t"))
    assert one[0] != two[0]
    assert one[1] < 2**53
    assert names(Publisher("n", "t", producer_id="p", epoch=0)) == ("p", 0)


def test_what_is_called_for_drops_cannot_end_the_sending() -> None:
    reported: list[int] = []

    def broken(count: int, error: FairleadError) -> None:
        reported.append(count)
        raise ValueError

    publisher = Publisher("n", "t", on_drop=broken)
    publisher._report(0, Permanent("x"))
    publisher._report(2, Permanent("x"))
    assert reported == [2]


# --- Fire and forget from threads; what both publishers do is in the conformance suite.


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    with MessagingService(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.mark.process
def test_many_threads_publish_and_nothing_is_lost(service: MessagingService) -> None:
    service.create("default/threads")
    with Client(service.url) as client:
        with BufferedPublisher(client, "default", "threads") as publisher:

            def work(who: int) -> None:
                for number in range(500):
                    publisher.publish(b"%d/%d" % (who, number))

            threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        seen = [message.payload for message in client.messages("default", "threads")]
    assert (publisher.published, publisher.dropped, len(seen)) == (4000, 0, 4000)
    for who in range(8):
        mine = [payload for payload in seen if payload.startswith(b"%d/" % who)]
        assert mine == [b"%d/%d" % (who, number) for number in range(500)]


def test_a_thread_gives_up_in_the_end_what_never_gets_through() -> None:
    """Its close takes no longer than it may, whatever the network does."""
    with (
        Client("http://127.0.0.1:1") as client,
        BufferedPublisher(client, "default", "t", close_seconds=0.01) as publisher,
    ):
        publisher.publish(b"a")
        assert not publisher.flush(0.01)
    assert publisher.dropped == 1


@pytest.mark.process
def test_after_a_fork_the_child_must_make_its_own(service: MessagingService) -> None:
    """Two processes numbering as one producer would hide each other's messages; the parent's go on."""
    service.create("default/fork")
    with Client(service.url) as client, BufferedPublisher(client, "default", "fork") as publisher:
        child = os.fork()
        if not child:
            try:
                publisher.publish(b"child")
            except LocalError:
                publisher.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        publisher.publish(b"parent")
        assert publisher.flush(30)
        assert [message.payload for message in client.messages("default", "fork")] == [b"parent"]


@pytest.mark.process
def test_a_program_that_just_ends_sends_what_waits(service: MessagingService, tmp_path: Path) -> None:
    """It was not closed; its thread must not be cut off with messages in hand."""
    service.create("default/exit")
    program = tmp_path / "program.py"
    program.write_text(
        "from fairlead_messaging.client.io.sync_client import Client\n"
        "from fairlead_messaging.client.io.buffered_publisher import BufferedPublisher\n"
        f"publisher = BufferedPublisher(Client({service.url!r}), 'default', 'exit')\n"
        "for number in range(100): publisher.publish(b'%d' % number)\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=120)
    with Client(service.url) as client:
        seen = [message.payload for message in client.messages("default", "exit")]
    assert seen == [b"%d" % number for number in range(100)]


# --- Fire and forget on an event loop; what both publishers do is in the conformance suite.


def publisher(client: AsyncClient, topic: str = "t", **options: Any) -> AsyncBufferedPublisher:
    return AsyncBufferedPublisher(client, "default", topic, **options)


async def test_messages_may_wait_before_it_is_entered(topics: Topics) -> None:
    async with AsyncClient(topics.url) as client:
        buffered = publisher(client, waiting_messages_max=2)
        assert [buffered.publish(b"a"), buffered.publish(b"b"), buffered.publish(b"c")] == [True, True, False]
        async with buffered:
            assert await buffered.flush(30)
    assert await topics.payloads("t") == ["a", "b"]


async def test_what_never_gets_through_is_given_up_in_the_end() -> None:
    reported: list[tuple[int, FairleadError]] = []
    async with (
        AsyncClient("http://127.0.0.1:1") as client,
        publisher(client, close_seconds=0.01, on_drop=lambda *drop: reported.append(drop)) as buffered,
    ):
        buffered.publish(b"a")
        assert not await buffered.flush(0.01)
    assert buffered.dropped == 1
    assert [count for count, _ in reported] == [1]


async def test_a_cancelled_owner_still_counts_what_is_lost() -> None:
    async with AsyncClient("http://127.0.0.1:1") as client:
        buffered = publisher(client, close_seconds=60)

        async def own() -> None:
            async with buffered:
                buffered.publish(b"a")

        owner = asyncio.create_task(own())
        await asyncio.sleep(0.01)
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)
    assert (buffered.waiting, buffered.dropped) == (0, 1)
