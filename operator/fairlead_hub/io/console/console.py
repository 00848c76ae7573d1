"""The console as the hub's ``app`` has it: one thing to add, to hand events to, and to tell of messaging."""

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

ROLES = {"": "", "starting": "starts, or waits for the Lease that another hub holds", "stopping": "stops"}
RUN_BYTES = 6


class Console:
    """See the package."""

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
        """By which client topics are looked at; None: there is none, or no more."""
        self.topics.ask(messaging)

    def publish(self, events: Iterable[Event]) -> None:
        """What the hub's core reports."""
        self.source.publish(events)
