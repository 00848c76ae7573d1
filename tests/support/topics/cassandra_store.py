"""Messaging's store on Cassandra for tests: many shards in one keyspace, because creating tables is slow."""

from __future__ import annotations

import itertools
from typing import Any, Self

from tests.support.topics.cassandra import DATACENTER, Cassandra

from fairlead_messaging.server.io.stores.cassandra.cassandra_kv import CassandraKV, open_shard
from fairlead_messaging.server.io.stores.cassandra.session import CassandraSession
from fairlead_messaging.server.settings import CassandraModel


class Counted:
    """Counts the events of a store."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.unknown = self.repeated = self.taken_over = self.unapplied = 0

    def note_request(self, operation: str, seconds: float) -> None:
        self.requests[operation] = self.requests.get(operation, 0) + 1

    def note_unknown(self) -> None:
        self.unknown += 1

    def note_repeated(self) -> None:
        self.repeated += 1

    def note_taken_over(self) -> None:
        self.taken_over += 1

    def show_unapplied(self, batches: int) -> None:
        self.unapplied = batches


def model_of(cassandra: Cassandra, keyspace: str, **more: Any) -> CassandraModel:
    points = [f"{node.address}:{cassandra.port}" for node in cassandra.nodes]
    known = {"contact_points": points, "keyspace": keyspace, "datacenter": DATACENTER}
    return CassandraModel(**{**known, **more})


class Shards:
    """One session for all stores, and a separate shard for each."""

    def __init__(self, cassandra: Cassandra, keyspace: str = "shards") -> None:
        self._cassandra = cassandra
        self._keyspace = keyspace
        self._numbers = itertools.count()
        self.counted = Counted()

    def __enter__(self) -> Self:
        self.session = CassandraSession(model_of(self._cassandra, self._keyspace), self.counted.note_request)
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def unused(self) -> str:
        """An unused shard name."""
        return f"shard{next(self._numbers)}"

    def opened(self, shard: str | None = None, name: str = "a test") -> CassandraKV:
        """Open a new store, or the one with this name."""
        return open_shard(self.session, shard or self.unused(), name, self.counted)
