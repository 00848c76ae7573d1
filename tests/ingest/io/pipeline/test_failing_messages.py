"""Cutting and trying a batch of the real service; the trial itself is the test's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import failing_messages
from fairlead_ingest.io.pipeline.failing_messages import Search
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset
from fairlead_messaging.client.io.sync_client import BulkClient, Client


def batch(client: BulkClient, topic: str) -> Offsets:
    plan = client.plan(topic, after="")
    assert plan.upto is not None
    generation, upto = plan.generation, plan.upto
    place = TopicOffset(
        generation=generation, position=upto, start_generation=generation, start_position="", rows=plan.rows
    )
    return Offsets(topics={topic: place})


def failing(client: BulkClient, bad: Callable[[bytes], bool]) -> Callable[[str, Path], None]:
    def probe(ranges: str, scratch: Path) -> None:
        scratch.mkdir(parents=True)
        for piece in json.loads(ranges):
            page = client.poll(piece["topic"], after=piece["after"], upto=piece["upto"])
            for payload in page.table["payload"].to_pylist():
                if bad(payload):
                    raise OSError(f"cannot take {payload.decode()}")

    return probe


def search_all(search: Search) -> dict[str, dict[str, str]]:
    while not search.step():
        pass
    return search.found


def test_single_messages_are_found_in_plain_and_transactional_rows(messaging, topic, tmp_path):
    """By position and reason; also inside of a transaction, whose messages are one row of the service."""
    messaging.publish(topic, [b"%d" % number for number in range(1500)])
    with Client(messaging.url) as writer:
        started = writer.start_transaction()
        namespace, name = topic.split("/")
        writer.store_in(started.transactionWritePointer, namespace, name, [b"%d" % n for n in range(1500, 1520)])
        writer.publish_in(started.transactionWritePointer, namespace, name, [])
        writer.finish_transaction(started.transactionWritePointer, "commit")
    with BulkClient(messaging.url) as client:
        page = client.poll(topic, after="").table
        names = {bytes(p): i.hex() for p, i in zip(page["payload"].to_pylist(), page["id"].to_pylist(), strict=True)}
        bad = {b"7", b"1499", b"1503"}
        found = search_all(Search(client, batch(client, topic), failing(client, bad.__contains__), tmp_path))
    assert found == {topic: {names[each]: f"cannot take {each.decode()}" for each in bad}}
    assert not (tmp_path / failing_messages.FOLDER).exists()


def test_a_reason_that_may_pass_ends_the_search(messaging, topic, tmp_path):
    messaging.publish(topic, [b"1"])

    def full(ranges: str, scratch: Path) -> None:
        raise OSError(28, "No space left on device")

    with BulkClient(messaging.url) as client, pytest.raises(errors.Wait, match=errors.DISK_FULL):
        Search(client, batch(client, topic), full, tmp_path).step()


def test_only_what_a_batch_reads_is_looked_at():
    """A topic at rest has nothing; behind an expired start what was alive then is read."""
    gap = Gap(reason="expired", upto="0c", rows=7)
    rest, jumped = (
        TopicOffset.at(1, "0a"),
        TopicOffset(generation=1, position="0f", start_generation=1, start_position="0a", rows=2, gap=gap),
    )
    [only] = failing_messages.ranges_of(Offsets(topics={"a/t": rest, "b/t": jumped}))
    assert (only.topic, only.after, only.upto, only.rows) == ("b/t", "0c", "0f", 2)
