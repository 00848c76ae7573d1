"""What an edge reports of itself."""

from __future__ import annotations

import msgspec

from fairlead_wire.message.header import Count, Header, Name, Place, Seconds


class Status(Header, frozen=True, kw_only=True, tag="status"):
    """Edge: its own account (content: JSON ``EdgeStatus``), for EdgeNode and EdgeRoutes status."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One priority of one endpoint at the edge."""

    endpoint: str
    priority: Place
    length: Count
    bytes: Count
    oldest_age_seconds: Seconds
    stalled_seconds: Seconds = 0.0
    """How long nothing of it was taken although a session was open; 0: it moves, or nothing waits."""
    stalled_by: Name = ""
    """Why, as the last answer said."""


TO_TABLE_WINDOW = 512
"""How many of the latest measures of a priority ``ToTable`` is of; all where there are fewer."""


class ToTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long messages of one priority take from their acceptance at the edge to a table, by the edge's own clock."""

    priority: Place
    measured: Count
    """Since the agent's start."""
    p50_seconds: Seconds
    p95_seconds: Seconds


class RouteError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a route is quarantined; positions count from 1, ``endColumn`` is exclusive."""

    route: str
    message: str
    line: Place
    column: Place
    end_column: Place


class RoutesStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the edge made of one EdgeRoutes object, at which of its versions; ``digest`` is of the content it judged."""

    uid: str
    resource_version: str
    accepted: list[str]
    errors: list[RouteError]
    topics: list[str] = []
    digest: str = ""
    warnings: list[RouteError] = []


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an edge reports of itself; ``routes`` maps EdgeRoutes object names."""

    held: Count
    queues: list[QueueStatus] = []
    routes: dict[str, RoutesStatus] = {}
    dead_letters: Count = 0
    store_bytes: Count = 0
    delivery: dict[str, str] = {}
    """In words, when messages go again: to the hub (``upstream``), to modules (``brokered``)."""
    to_table: list[ToTable] = []
    """By priority; empty: nothing was measured since its start."""
    authorities: Name = ""
    """Which authorities it believes (``identity.bundle.digest``); empty: it has not said."""
