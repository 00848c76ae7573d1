"""Values as people read them: what the service wrote is shown, whatever differs is said to be damaged."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core, producer, publish

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.commands import RecordReaderPosition
from fairlead_messaging.server.dump import row_key, row_value, table_dump
from fairlead_messaging.server.dump.row_key import RowKey, Undecodable
from fairlead_messaging.server.dump.row_value import RowContext
from fairlead_messaging.server.dump.table_dump import DumpSelection
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.changes import PutSubscription
from fairlead_messaging.server.transactions.commands import Abort, Start
from fairlead_messaging.server.transactions.transaction import TransactionLimits

TOPIC = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=1)
MESSAGE = row_key.parse(keys.table(keys.MESSAGE, TOPIC) + Position(5, 7).encode())
PAYLOAD = row_key.parse(keys.payloads(TOPIC, 99) + Position(5, 7).encode())
LIVING = {("n", "t"): 1}


def decode(key: row_key.RowKey, value: bytes, **context: Any) -> dict[str, Any]:
    return row_value.decode(key, value, RowContext(generations=LIVING, **context))


def test_a_message_says_what_readers_make_of_it() -> None:
    states = {1: "in_progress", 2: "aborted", 3: "invalid"}
    shown_as = {0: "visible", 1: "undecided", 2: "hidden", 3: "hidden", 4: "visible", -4: "hidden"}
    for pointer, state in shown_as.items():
        assert decode(MESSAGE, rows.encode(b"x", pointer=pointer), open_states=states)["state"] == state
    shown = decode(MESSAGE, rows.encode(b"x", 9, -4))
    assert (shown["transaction"], shown["ttl"], shown["published_ms"], shown["sequence"]) == (4, 9, 5, 7)
    assert shown["published"] == "1970-01-01T00:00:00.005Z"
    assert "unreachable" not in shown
    assert row_value.decode(MESSAGE, b"\x00x", RowContext(generations={("n", "t"): -1}))["unreachable"]


def test_bodies_are_bounded_and_not_shown_unless_asked_for() -> None:
    assert decode(MESSAGE, b"\x00abc") | {"bytes": 3} == decode(MESSAGE, b"\x00abc")
    assert "body" not in decode(MESSAGE, b"\x00abc")
    cut = decode(MESSAGE, b"\x00abc", body_bytes_max=2)
    assert (base64.b64decode(cut["body"]), cut["body_cut"], cut["bytes"]) == (b"ab", True, 3)
    assert "body_cut" not in decode(MESSAGE, b"\x00ab", body_bytes_max=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MESSAGE, b""),
        (MESSAGE, b"\x09x"),
        (MESSAGE, b"\x01short"),
        (MESSAGE, b"\x03" + bytes(11)),
        (MESSAGE, b"\x04" + bytes(20)),
        (MESSAGE, rows.encode(b"short", pointer=1, is_reference=True)),
        (PAYLOAD, rows.encode(b"x", pointer=1)),
        (row_key.parse(keys.metadata("n", "t")), b"{}"),
        (row_key.parse(keys.open_transaction(7)), b"not json"),
        (row_key.parse(keys.log_end(TOPIC)), bytes(29)),
        (row_key.parse(keys.table(b"W", TOPIC)), bytes(9)),
        (row_key.parse(keys.table(b"I", TOPIC) + bytes(10)), bytes(15)),
        (row_key.parse(keys.table(b"Y", TOPIC) + bytes(10)), bytes(27)),
        (row_key.parse(keys.producer(TOPIC, "p", 1)), bytes(9)),
        (row_key.parse(keys.producer(TOPIC, "p", 1)), bytes(8) + (2).to_bytes(8, "big") + (1).to_bytes(8, "big")),
        (row_key.parse(keys.fence(TOPIC, "p")), bytes(15)),
        (row_key.parse(keys.subscription(TOPIC, "s")), b"[]"),
        (row_key.parse(keys.reader(TOPIC, "r")), b"7"),
        (row_key.parse(keys.service("id")), b"\xff"),
    ],
)
def test_a_damaged_value_is_never_guessed_at(key: row_key.RowKey, value: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(key, value)


def test_a_record_under_another_key_is_damaged(core: Core) -> None:
    pointer = core.start(1)
    raw = core.kv.get(keys.open_transaction(pointer))
    assert raw is not None
    assert decode(row_key.parse(keys.open_transaction(pointer)), raw)["state"] == "in_progress"
    with pytest.raises(Undecodable, match=str(pointer)):
        decode(row_key.parse(keys.open_transaction(8)), raw)


def test_everything_a_service_writes_can_be_decoded() -> None:
    core = Core(limits=TransactionLimits(hold_up_seconds_max=10**6))
    core.create("t", 10**6)
    core.do(publish("t", "a", "aa", producer=producer(1, 2)))
    core.do(publish("t", "b", producer=producer(5, epoch=2, fence=True)))
    core.do(publish("t", *["x"] * 2000))
    one, two, three = (core.start(80_000) for _ in range(3))
    core.store(one, LoggedMessage(b"c", 5))
    core.do(publish("t", pointer=one))
    core.store(two, "d")
    core.now_ms += 7_200_000
    core.do(Start(timeout_seconds=5))
    core.commit(one, "k")
    core.do(Abort(pointer=three))
    place: dict[str, Any] = {"namespace": NAMESPACE, "name": "t"}
    page = core.page("t")
    core.do(RecordReaderPosition(**place, reader="r", position=page.ids[0], generation=1))
    given = subscription.SubscriptionRecord(url="https://me:secret@host/hook?key=secret")
    core.do(PutSubscription(**place, subscription="s", record=given))
    with core.kv.snapshot() as snapshot:
        lines = list(table_dump.lines(snapshot, DumpSelection(), table_dump.context(snapshot)))
    assert [line for line in lines if "undecodable" in line] == []
    assert {line["table"] for line in lines} == set(row_key.TABLES)
    assert {line["index"] for line in lines if line["table"] == "indexes"} >= {
        "log_end",
        "running_total",
        "reference",
        "long_commit",
    }
    [shown] = [line for line in lines if line["table"] == "subscriptions"]
    assert shown["url"] == "https://host/hook?…"
    assert "secret" not in str(lines)


# --- Keys are taken apart exactly as they were put together, and nothing else passes for one.


THIRD = TopicGeneration(namespace="n", name="t", generation=3, ttl_seconds=1)
OF_TOPIC = {"topic": ("n", "t"), "generation": 3}
WHERE = Position(5, 7)
EVERY = [
    (keys.metadata("n", "t"), {"letter": b"T", "topic": ("n", "t")}),
    (keys.log_end(THIRD), {"letter": b"H", "topic": ("n", "t")}),
    (keys.table(b"M", THIRD) + WHERE.encode(), {"letter": b"M", **OF_TOPIC, "position": WHERE}),
    (keys.table(b"I", THIRD) + WHERE.encode(), {"letter": b"I", **OF_TOPIC, "position": WHERE}),
    (keys.table(b"Y", THIRD) + WHERE.encode(), {"letter": b"Y", **OF_TOPIC, "position": WHERE}),
    (keys.payloads(THIRD, 99) + WHERE.encode(), {"letter": b"P", **OF_TOPIC, "pointer": 99, "position": WHERE}),
    (
        keys.table(b"E", THIRD) + (8).to_bytes(8, "big") + WHERE.encode(),
        {"letter": b"E", **OF_TOPIC, "expires_ms": 8, "position": WHERE},
    ),
    (keys.table(b"W", THIRD), {"letter": b"W", **OF_TOPIC}),
    (keys.reader(THIRD, "r"), {"letter": b"D", **OF_TOPIC, "name": "r"}),
    (keys.subscription(THIRD, "s"), {"letter": b"U", **OF_TOPIC, "name": "s"}),
    (keys.producer(THIRD, "ü:", 4), {"letter": b"R", **OF_TOPIC, "name": "ü:", "epoch": 4, "first": 0}),
    (
        keys.producer_page(keys.producer(THIRD, "p", 4), 600),
        {"letter": b"R", **OF_TOPIC, "name": "p", "epoch": 4, "first": 600},
    ),
    (keys.fence(THIRD, "p"), {"letter": b"F", **OF_TOPIC, "name": "p"}),
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
