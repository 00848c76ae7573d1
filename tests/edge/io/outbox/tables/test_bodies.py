"""Messages read from the tables, each checked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.tables import bodies, log
from fairlead_edge.io.outbox.tables.bodies import row_checksum, text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

REST = QueueId("iothub")


@pytest.mark.parametrize(
    ("damage", "topic", "reason"),
    [
        ("UPDATE runs SET topic = 'default/other'", "", "its envelope on disk is damaged"),
        ("DELETE FROM runs", "", "its envelope on disk is damaged"),
        ("DELETE FROM segments", "default/t", "its body is missing on disk"),
        ("UPDATE segments SET encoding = 'none'", "default/t", "its body on disk is damaged"),
        ("UPDATE references_ SET start = 1", "default/t", "its body on disk is damaged"),
    ],
)
def test_what_the_disk_changed_is_named(damage: str, topic: str, reason: str) -> None:
    connection = tables()
    append(connection, Entry("", b'{"a":1}', (Reference(REST, None, "default/t"),)))
    rows(connection, damage)
    [found] = log.fetch(connection, REST, after=-1, now=0, messages_max=9, bytes_max=99).damaged
    assert (found.offset, found.topic) == (0, topic) and found.reason.startswith(reason)


def test_columns_of_other_types_have_no_checksum() -> None:
    assert row_checksum(REST, 0, 0, 1, "yesterday", None, "t") is None
    assert row_checksum(REST, 0, 0, 1, 0.0, None, "t") is not None
    assert text(b"\xff") == "\\xff" and text(7) == ""


def test_messages_that_came_alone_are_read_side_by_side() -> None:
    """Small segments are read a few at a time; a missing, damaged or large one among them does not affect the
    others."""
    connection = tables()
    sizes = [7] * 20 + [100_000] + [7] * 20
    for number, size in enumerate(sizes):
        append(connection, Entry("", b'{"a":"%d%s"}' % (number, b"-" * size), (Reference(REST),)))
    rows(connection, "DELETE FROM segments WHERE id = 5")
    rows(connection, "UPDATE segments SET content = 7 WHERE id = 30")
    asked: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        asked.append(statement)
        return True

    connection.exec_trace = note
    found = log.fetch(connection, REST, after=-1, now=0, messages_max=100, bytes_max=10**9)
    connection.exec_trace = None
    assert [each.offset for each in found.damaged] == [4, 29]
    assert [(item.offset, len(item.content)) for item in found.items] == [
        (number, len(f'{{"a":"{number}"}}') + size) for number, size in enumerate(sizes) if number not in (4, 29)
    ]
    assert sum("FROM segments" in each for each in asked) < 10


def test_each_run_is_judged_by_its_own_envelope() -> None:
    """A damaged run between two intact ones."""
    connection = tables()
    for topic in ("default/t", "default/t", "default/u"):
        append(
            connection,
            Entry("", b"{}", (Reference(REST, None, topic),)),
            Entry("", b"[]", (Reference(REST, None, topic),)),
        )
    rows(connection, "UPDATE runs SET epoch = 9 WHERE segment = 2")
    found = log.fetch(connection, REST, after=-1, now=0, messages_max=9, bytes_max=99)
    assert [(item.offset, item.topic) for item in found.items] == [
        (0, "default/t"),
        (1, "default/t"),
        (4, "default/u"),
        (5, "default/u"),
    ]
    assert [each.offset for each in found.damaged] == [2, 3]


@pytest.mark.parametrize("content", [b"", b"x", b'{"temperature": 21.5}' * 1000, bytes(range(256)) * 10])
def test_what_is_packed_is_unpacked(content: bytes) -> None:
    encoding, packed = bodies.pack(content)
    assert len(packed) <= len(content)
    assert bodies.unpack(encoding, packed, len(content)) == content


def test_alike_bodies_take_a_fraction() -> None:
    encoding, packed = bodies.pack(b"".join(b'{"sensor": "boiler-%d", "celsius": %d}' % (n % 7, n) for n in range(500)))
    assert encoding == bodies.ZSTD and len(packed) < 5000


def test_a_short_one_stays_as_it_is() -> None:
    assert bodies.pack(b"x" * (bodies.PACKED_MIN - 1)) == (bodies.PLAIN, b"x" * (bodies.PACKED_MIN - 1))
    assert bodies.pack(b"x" * bodies.PACKED_MIN)[0] == bodies.ZSTD


def test_threads_do_not_disturb_each_other() -> None:
    contents = [bytes([n]) * 50_000 + b"end" for n in range(64)]
    with ThreadPoolExecutor(8) as threads:
        assert (
            list(threads.map(lambda content: bodies.unpack(*bodies.pack(content), len(content)), contents)) == contents
        )


@pytest.mark.parametrize(
    ("encoding", "packed", "size"),
    [
        ("", b"abc", 4),
        ("zstd", bodies.pack(b"a" * 99)[1], 98),
        ("zstd", bodies.pack(b"a" * 99)[1][:-1], 99),
        ("zstd", b"no frame", 99),
        ("gzip", b"abc", 3),
        ("", "text", 4),
    ],
)
def test_what_is_damaged_is_said_to_be(encoding: str, packed: bytes, size: int) -> None:
    """Always the same error, and never more memory than announced."""
    with pytest.raises(ValueError):
        bodies.unpack(encoding, packed, size)
