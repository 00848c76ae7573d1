"""The console as ``app`` uses it: adds routes, receives events, and is given the messaging client."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from aiohttp import web

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.io.console.console_pages import Assets, ConsolePages
from fairlead_hub.io.console.live_source import LiveSource
from fairlead_hub.io.console.span_ring import SpanRing
from fairlead_hub.io.console.topic_watch import TopicWatch
from fairlead_hub.io.http import HubHealth
from fairlead_hub.view import HubView
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.event import Event

ROLES = {"": "", "starting": "is starting, or waiting for the Lease that another hub holds", "stopping": "is stopping"}
RUN_BYTES = 6


class Console:
    """See the package docstring."""

    def __init__(
        self,
        view: HubView,
        freshness: WatchHealth,
        health: HubHealth,
        clock: Callable[[], float],
        spans: SpanRing | None = None,
    ) -> None:
        assets = Assets()
        self.topics = TopicWatch(clock, view.clock, is_configured=view.settings.messaging_url is not None)
        self.source = LiveSource(
            view,
            freshness,
            clock=clock,
            role=lambda: ROLES.get(health.not_ready, health.not_ready),
            topics=self.topics,
            run=secrets.token_hex(RUN_BYTES),
            assets=assets.version,
            spans=spans,
        )
        self.pages = ConsolePages(view, self.source, assets, clock)

    def add_to(self, app: web.Application) -> None:
        self.pages.add_to(app)

    def ask(self, messaging: AsyncClient | None) -> None:
        """Set the client with which topics are polled; None if there is none, or no longer."""
        self.topics.ask(messaging)

    def publish(self, events: Iterable[Event]) -> None:
        """Record events of the hub's core."""
        self.source.publish(events)
