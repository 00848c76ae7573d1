"""Keys are taken apart exactly as they were put together, and nothing else passes for one."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.dump import row_key
from fairlead_messaging.server.dump.row_key import RowKey, Undecodable
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration

TOPIC = TopicGeneration(namespace="n", name="t", generation=3, ttl_seconds=1)
OF_TOPIC = {"topic": ("n", "t"), "generation": 3}
WHERE = Position(5, 7)
EVERY = [
    (keys.metadata("n", "t"), {"letter": b"T", "topic": ("n", "t")}),
    (keys.log_end(TOPIC), {"letter": b"H", "topic": ("n", "t")}),
    (keys.table(b"M", TOPIC) + WHERE.encode(), {"letter": b"M", **OF_TOPIC, "position": WHERE}),
    (keys.table(b"I", TOPIC) + WHERE.encode(), {"letter": b"I", **OF_TOPIC, "position": WHERE}),
    (keys.table(b"Y", TOPIC) + WHERE.encode(), {"letter": b"Y", **OF_TOPIC, "position": WHERE}),
    (keys.payloads(TOPIC, 99) + WHERE.encode(), {"letter": b"P", **OF_TOPIC, "pointer": 99, "position": WHERE}),
    (
        keys.table(b"E", TOPIC) + (8).to_bytes(8, "big") + WHERE.encode(),
        {"letter": b"E", **OF_TOPIC, "expires_ms": 8, "position": WHERE},
    ),
    (keys.table(b"W", TOPIC), {"letter": b"W", **OF_TOPIC}),
    (keys.reader(TOPIC, "r"), {"letter": b"D", **OF_TOPIC, "name": "r"}),
    (keys.subscription(TOPIC, "s"), {"letter": b"U", **OF_TOPIC, "name": "s"}),
    (keys.producer(TOPIC, "ü:", 4), {"letter": b"R", **OF_TOPIC, "name": "ü:", "epoch": 4, "first": 0}),
    (
        keys.producer_page(keys.producer(TOPIC, "p", 4), 600),
        {"letter": b"R", **OF_TOPIC, "name": "p", "epoch": 4, "first": 600},
    ),
    (keys.fence(TOPIC, "p"), {"letter": b"F", **OF_TOPIC, "name": "p"}),
    (keys.open_transaction(99), {"letter": b"O", "pointer": 99}),
    (keys.finished(99), {"letter": b"X", "pointer": 99}),
    (keys.long_commit(99), {"letter": b"L", "pointer": 99}),
    (keys.service("id"), {"letter": b"S", "name": "id"}),
]


@pytest.mark.parametrize(("key", "parts"), EVERY, ids=[repr(key[:1]) for key, _ in EVERY])
def test_each_key_is_read_as_it_was_written(key: bytes, parts: dict[str, object]) -> None:
    assert row_key.parse(key) == RowKey(**parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "parts"), EVERY, ids=[repr(key[:1]) for key, _ in EVERY])
def test_a_key_cut_short_or_too_long_is_none(key: bytes, parts: dict[str, object]) -> None:
    """Except where another name, or a page of numbers, may follow."""
    for damaged in (key[:-1], key + b"\x00"):
        try:
            found = row_key.parse(damaged)
        except Undecodable:
            continue
        assert found.letter in (b"S", b"R") and found != RowKey(**parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "key", [b"", b"Z", b"T", b"Tn", b"Tn:t", b"Tn t:t:", b"T\xff:t:", b"Mn:t:", b"R" + b"n:t:" + bytes(4) + b"\xff\xff"]
)
def test_what_is_no_key_is_said_to_be_none(key: bytes) -> None:
    with pytest.raises(Undecodable):
        row_key.parse(key)


def test_every_table_of_the_layout_has_a_name() -> None:
    """The list in `log.keys` is what people find in the documentation."""
    listed = {line.split()[0] for line in (keys.__doc__ or "").splitlines() if line.startswith("    ")}
    assert {letter.decode() for letter in row_key.TABLE_OF} == listed
