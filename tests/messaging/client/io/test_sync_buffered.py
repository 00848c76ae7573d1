"""Fire and forget from threads; what both publishers do is in the conformance suite."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.io.buffered_publisher import BufferedPublisher
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import LocalError


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagingService]:
    with MessagingService(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.mark.process
def test_many_threads_publish_and_nothing_is_lost(service: MessagingService) -> None:
    """Each one's messages stay in its order."""
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


def test_what_never_gets_through_is_given_up_in_the_end() -> None:
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
