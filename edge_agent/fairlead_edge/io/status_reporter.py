"""Collects the agent's status from its parts: for the local API, as metrics, and for the hub."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from fairlead_edge import agent_metrics, agent_status, metrics
from fairlead_edge.agent_status import AgentStatus
from fairlead_edge.identity.certificate import CertificateStatus
from fairlead_edge.io import data_dir
from fairlead_edge.io.link.link import Link
from fairlead_edge.io.local_api.connections import LocalConnections
from fairlead_edge.io.local_api.watches import Watches
from fairlead_edge.io.objects.sqlite_metastore import SqliteMetastore
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.io.routes_in_use import RoutesInUse
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.mqtt.status import MqttStatus
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_edge.outbox.plan.status import LineStatus
from fairlead_wire.errors import Temporary

WHOLE_SECONDS: Final = 60.0
"""After this time, a session has compared the stored objects and sent the missing ones."""
REPORT_SECONDS: Final = 30.0
"""How often a changed status is sent to the hub."""


class StatusReporter:
    """Reads the status of all parts of the agent.  ``agent`` is the version of the program."""

    def __init__(
        self,
        *,
        node: str,
        agent: str,
        object_bytes_max: int,
        store: SqliteMetastore,
        outbox: SqliteOutbox,
        link: Link,
        upstream: UpstreamService,
        watches: Watches,
        connections: LocalConnections,
        routes: RoutesInUse,
        statuses: StatusSender,
        certificate_ends: Callable[[], float] | None = None,
        encryption: agent_status.Encryption | None = None,
        identity: Callable[[], CertificateStatus] | None = None,
        line: Callable[[], LineStatus] = LineStatus,
        mqtt: Callable[[], MqttStatus] | None = None,
    ) -> None:
        self._line = line
        self._mqtt = mqtt
        self._identity = identity
        self._node = node
        self._agent = agent
        self._object_bytes_max = object_bytes_max
        self._store = store
        self._outbox = outbox
        self._link = link
        self._upstream = upstream
        self._watches = watches
        self._connections = connections
        self._routes = routes
        self._statuses = statuses
        self._certificate_ends = certificate_ends
        self._encryption = encryption or agent_status.Encryption()
        self._held = 0
        self._changed = asyncio.Event()

    @property
    def held(self) -> int:
        """The current number of stored objects."""
        return self._held

    async def count(self) -> None:
        """Count the stored objects, once before ``follow`` is called."""
        self._held = (await self._store.summary(0)).held

    def follow(self, change: VersionedChange[HeldObject]) -> None:
        """An object was stored, replaced or removed."""
        self._held += (change.current is not None) - (change.previous is not None)

    def lost(self, objects: int) -> None:
        """This many damaged objects were removed."""
        self._held -= objects

    def changed(self) -> None:
        """Something changed that the hub should know soon."""
        self._changed.set()

    async def read(self) -> AgentStatus:
        """The current status."""
        now = self._outbox.now()
        self._link.last_contact()
        return AgentStatus(
            node=self._node,
            agent=self._agent,
            store_epoch=self._outbox.epoch,
            now=now,
            link=self._link.state,
            held=self._held,
            object_bytes=data_dir.size(self._store.path),
            object_bytes_max=self._object_bytes_max,
            commits=self._store.commits,
            watches=len(self._watches),
            unsent_bytes=self._connections.unsent,
            readers_closed=self._connections.closed,
            counters=self._link.counters,
            outbox=await self._outbox.status(now=now),
            routes=self._routes.statuses,
            statuses=self._statuses.counts(),
            reporting=self._statuses.counters,
            publishing=self._upstream.publisher.counters,
            pumping=self._upstream.pump.counters,
            stalls=self._upstream.pump.stalls(),
            given_out=self._upstream.broker.counts(),
            receipts=self._upstream.receipts.counters,
            to_table=self._upstream.receipts.latency.quantiles(),
            delivery=self._upstream.policies,
            disk_full=self._outbox.writer.is_disk_full or self._store.writer.is_disk_full,
            salvaged=self._outbox.salvaged or self._store.salvaged,
            damaged=self._store.damaged,
            encryption=self._encryption,
            certificate_ends=self._certificate_ends() if self._certificate_ends is not None else None,
            line=self._line(),
            queues_held=self._upstream.pump.held(),
            identity=self._identity() if self._identity is not None else None,
            mqtt=self._mqtt() if self._mqtt is not None else None,
        )

    async def status(self) -> dict[str, Any]:
        """For ``GET /v1/status``."""
        return agent_status.status(await self.read())

    async def metrics(self) -> str:
        """For ``GET /metrics``."""
        return metrics.render(agent_metrics.families(await self.read()))

    async def run(self) -> None:
        """Send the status to the hub when it changes, and record when no object is missing any more.

        Runs until cancelled.
        """
        while True:
            self._changed.clear()
            self._link.report(agent_status.for_hub(await self.read()))
            if self._store.lacking and self._connected_seconds() > WHOLE_SECONDS:
                with contextlib.suppress(Temporary):
                    await self._store.is_whole()
                    await self._routes.load()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), REPORT_SECONDS)

    def _connected_seconds(self) -> float:
        state = self._link.state
        return self._outbox.now() - (state.since or 0.0) if state.state == "connected" else 0.0
