"""The keys of rows: one ordered keyspace, with a letter for each table.

    T ns:topic:                                        metadata
    H ns:topic:                                        highest position ever assigned
    M ns:topic: generation timestamp sequence          message table
    P ns:topic: generation pointer timestamp sequence  payload table
    R ns:topic: generation id-length id epoch [first]  sequences known of a producer, by page
    F ns:topic: generation id-length id                newest and fenced epoch of a producer
    I ns:topic: generation timestamp sequence          running totals (tally)
    E ns:topic: generation expiry timestamp sequence   messages with a ttl of their own
    Y ns:topic: generation timestamp sequence          payload rows each reference stands for
    W ns:topic: generation                             the last position removed
    D ns:topic: generation name                        how far a named reader is
    U ns:topic: generation name                        subscriptions
    O pointer                                          transactions that readers must know
    X pointer                                          finished transactions
    L pointer                                          long ones among these that committed changed keys
    S name                                             facts of this service

The colon after each name keeps ``a`` and ``ab`` apart; names cannot contain it.  Integers are big
endian and unsigned, so byte order is numeric order.
"""

from __future__ import annotations

from typing import NewType

from fairlead_messaging.api.message_id import POSITION_BYTES, PositionBytes
from fairlead_messaging.server.log.topic import TopicGeneration

Prefix = NewType("Prefix", bytes)
"""The beginning of the keys of one table of one topic."""

METADATA, LOG_END, MESSAGE, PAYLOAD, PRODUCER, FENCE, SERVICE = b"T", b"H", b"M", b"P", b"R", b"F", b"S"
MARK, REMOVED, READER = b"I", b"W", b"D"
EXPIRY, REFERENCE, SUBSCRIPTION = b"E", b"Y", b"U"
OPEN, FINISHED, LONG = b"O", b"X", b"L"
EVERYTHING = (b"", b"\xff")
"""Every key begins with a letter."""


def position(row: bytes) -> PositionBytes:
    """The position in a key, for every table that is ordered by position."""
    return PositionBytes(row[-POSITION_BYTES:])


def above(prefix: bytes) -> bytes:
    """The first key above every key with this prefix."""
    value = int.from_bytes(prefix, "big") + 1
    return value.to_bytes(len(prefix), "big")


def names(namespace: str, name: str) -> bytes:
    return f"{namespace}:{name}:".encode()


def metadata(namespace: str, name: str) -> bytes:
    return METADATA + names(namespace, name)


def namespace_metadata(namespace: str) -> Prefix:
    """Prefix of the metadata of every topic of a namespace."""
    return Prefix(METADATA + f"{namespace}:".encode())


def metadata_names(key: bytes) -> tuple[str, str]:
    """(namespace, name) of a metadata key."""
    namespace, name, _ = key[1:].decode().split(":")
    return namespace, name


def log_end(topic: TopicGeneration) -> bytes:
    return LOG_END + names(topic.namespace, topic.name)


def table(letter: bytes, topic: TopicGeneration) -> Prefix:
    """Prefix of one table's rows of this generation."""
    return Prefix(letter + names(topic.namespace, topic.name) + topic.generation.to_bytes(4, "big"))


def dead_generations(letter: bytes, topic: TopicGeneration) -> tuple[bytes, bytes]:
    """Key range of one table's rows of all generations that are no longer reachable."""
    prefix = letter + names(topic.namespace, topic.name)
    first_live = topic.generation if topic.exists else -topic.generation + 1
    return prefix, prefix + first_live.to_bytes(4, "big")


def payloads(topic: TopicGeneration, pointer: int) -> Prefix:
    """Prefix of the payload rows of one transaction."""
    return Prefix(table(PAYLOAD, topic) + pointer.to_bytes(8, "big"))


def _producer_id(producer_id: str) -> bytes:
    raw = producer_id.encode()
    return len(raw).to_bytes(2, "big") + raw


def producer(topic: TopicGeneration, producer_id: str, epoch: int) -> bytes:
    return table(PRODUCER, topic) + _producer_id(producer_id) + epoch.to_bytes(8, "big")


def producer_page(producer: bytes, first: int) -> bytes:
    """The key of the page from ``first`` on; that of the page from 0 on is the producer's own."""
    return producer + first.to_bytes(8, "big") if first else producer


def first_of_page(producer: bytes, page: bytes) -> int:
    return int.from_bytes(page[len(producer) :], "big")


def fence(topic: TopicGeneration, producer_id: str) -> bytes:
    return table(FENCE, topic) + _producer_id(producer_id)


def reader(topic: TopicGeneration, name: str) -> bytes:
    return table(READER, topic) + name.encode()


def subscription(topic: TopicGeneration, name: str) -> bytes:
    return table(SUBSCRIPTION, topic) + name.encode()


def open_transaction(pointer: int) -> bytes:
    return OPEN + pointer.to_bytes(8, "big")


def finished(pointer: int) -> bytes:
    return FINISHED + pointer.to_bytes(8, "big")


def long_commit(pointer: int) -> bytes:
    return LONG + pointer.to_bytes(8, "big")


def service(name: str) -> bytes:
    return SERVICE + name.encode()
