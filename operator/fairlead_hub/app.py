"""Connects the hub's core with its I/O: settings, the event loop, watches, server, writers, signals."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from aiohttp import web

from fairlead_hub import leadership
from fairlead_hub import settings as hub_settings
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.hub import Hub
from fairlead_hub.io import http, memory
from fairlead_hub.io.change_traces import ChangeTraces
from fairlead_hub.io.cluster import api_access, api_error, kopf_handlers, kube
from fairlead_hub.io.cluster.event_recorder import EventRecorder
from fairlead_hub.io.cluster.lease_keeper import LeaseKeeper
from fairlead_hub.io.cluster.status_reports import StatusReports
from fairlead_hub.io.cluster.status_writer import KubeStatusClient, StatusWriter
from fairlead_hub.io.cluster.watches import INPUTS, Reflectors
from fairlead_hub.io.console.console import Console
from fairlead_hub.io.console.span_ring import SpanRing
from fairlead_hub.io.identity.authorities import LoadedAuthorities
from fairlead_hub.io.inputs.access_review import AccessReview
from fairlead_hub.io.inputs.inputs import InputService
from fairlead_hub.io.inputs.inputs_api import InputsApi
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.io.messaging.cloud_event_publisher import CloudEventPublisher
from fairlead_hub.io.messaging.table_positions import TablePositions
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.io.metrics import HubMetrics
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.wall_clock import WallClock
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.connections import Tls
from fairlead_wire import distribution
from fairlead_wire.io import logs, tls
from fairlead_wire.io import settings as wire_settings
from fairlead_wire.io.spans import CannotTrace, Spans, open_spans
from fairlead_wire.validation import listen_address

if TYPE_CHECKING:  # `cryptography` would cost a hub that signs nothing 9 MB
    from fairlead_hub.io.identity.file_signer import FileSigner
    from fairlead_hub.io.identity.identity_service import IdentityService

ROOM = "hub"
EXIT_LOST_LEASE = 1
EXIT_CANNOT_SERVE = 1
HEARTBEAT_SECONDS = 1.0
GOODBYE_SECONDS = 0.3
"""How long nodes may take to close their links before the Lease is released; slower ones close them in parallel."""
FLUSH_AT_END_SECONDS = 1.0
"""For writing the last records.  The next hub writes the rest."""
LISTED_SECONDS = 5.0
"""At startup, how long nodes wait until Nodes and EdgeNodes are listed.  Listing 5,000 of each takes about one
second."""
LISTED_POLL_SECONDS = 0.02
EPOCH_BITS = 53
"""Size of the random number that distinguishes this run's events from another's.  JSON represents it exactly."""
LINGERING = frozenset(["operator", "cloud events"])
"""Tasks that may take seconds to end.  They write nothing to the API."""
_log = logs.get("hub.app")


def run(config: Path | None) -> int:
    """Implement ``fairlead hub run``; return the exit code."""
    try:
        settings = wire_settings.load(ROOM, hub_settings.HubSettings, config, os.environ)
        logs.configure(ROOM, settings.log_level)
        wire_settings.warn_unknown_variables(os.environ)
        access = api_access.load(settings.kubeconfig)
        authorities = LoadedAuthorities(settings) if settings.security == "mtls" else None
        signer = _signer(settings, authorities)
        ring = SpanRing()
        around = ring.around if settings.console.enabled else None
        spans = open_spans(settings.traces, room=ROOM, version=distribution.version(), environ=os.environ, wrap=around)
    except wire_settings.SettingsError as error:
        return wire_settings.complain(ROOM, error)
    except (api_access.ConfigError, tls.TlsFilesError, CannotTrace) as error:
        print(f"fairlead hub: {error}", file=sys.stderr)
        return wire_settings.EXIT_STATUS
    memory.keep_small()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            seen = ring if spans is not None else None
            return runner.run(_App(settings, access, authorities, signer, spans, seen).main())
        finally:
            if spans is not None:
                spans.close()


def _signer(settings: hub_settings.HubSettings, authorities: LoadedAuthorities | None) -> FileSigner | None:
    if authorities is None or settings.identity.signs_with == "off":
        return None
    from fairlead_hub.io.identity import identity_service

    return identity_service.file_signer(settings.identity, authorities)


class _App:
    """One run of the hub."""

    def __init__(
        self,
        settings: hub_settings.HubSettings,
        access: api_access.ApiAccess,
        authorities: LoadedAuthorities | None,
        signer: FileSigner | None,
        spans: Spans | None,
        ring: SpanRing | None,
    ) -> None:
        self._spans, self._ring = spans, ring
        self._settings, self._access, self._authorities, self._signer = settings, access, authorities, signer
        self._identity = settings.lease_identity or f"{socket.gethostname()}/{settings.listen}"
        self._exit = 0
        self._stop = asyncio.Event()
        self._counts = IoCounts()
        self._background: set[asyncio.Task[None]] = set()
        self._raising = asyncio.Lock()

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        client = kube.Kube(self._access)
        work = loop.create_task(self._serve(client))
        stop = loop.create_task(self._stop.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()
            await work
        except OSError as error:
            # An address in use is for the user to fix, not a defect that needs a traceback.
            _log.error("cannot_serve", reason=str(error))
            return EXIT_CANNOT_SERVE
        finally:
            stop.cancel()
            await client.close()
        return self._exit

    async def _serve(self, client: kube.Kube) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        namespace = settings.namespace or self._access.namespace
        # A kubeconfig may point to a cluster other than the one this Pod runs in.
        pod = leadership.own(os.environ) if settings.kubeconfig is None else None
        keeper = LeaseKeeper(client, namespace=namespace, identity=self._identity, on_lost=self._lost, pod=pod)
        wall = WallClock(lambda: time.time() - loop.time())
        hub = Hub(settings, name=self._identity, fence=0, clock=wall, draw=random.random)
        self._freshness = WatchHealth(INPUTS)
        runners = await self._listen_http(hub, client)
        try:
            if await self._unless_stopped(keeper.acquire()):
                hub.raise_fence(keeper.fence)
                await self._work(hub, client, keeper)
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _until_listed(self, hub: Hub) -> None:
        """Until certificates can be judged; not for long, and then nodes are answered ``starting``.

        Before that every node would come, be sent away and come again: thousands of handshakes for nothing.
        """
        end = time.monotonic() + LISTED_SECONDS
        while not hub.certificates.are_judged and not self._stop.is_set() and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(LISTED_POLL_SECONDS)

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, int]) -> bool:
        """Wait for the Lease, but stop waiting when the program is asked to stop."""
        task = asyncio.create_task(waiting)
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not task.done():
            task.cancel()
            return False
        task.result()
        return True

    async def _listen_http(self, hub: Hub, client: kube.Kube) -> list[web.AppRunner]:
        settings, clock = self._settings, asyncio.get_running_loop().time
        ends = self._authorities.internal_files.ends if self._authorities is not None else None
        self._metrics = metrics = HubMetrics(hub.view, client, clock, self._freshness, self._counts, ends)
        app = web.Application()
        nodes_api = http.NodesApi(hub.view, self._freshness, clock)
        nodes_api.add_to(app)
        review = AccessReview(client, is_open=settings.security == "insecure", clock=clock)
        self._inputs_api = InputsApi(hub, review)
        self._inputs_api.add_to(app)
        self._health = http.HubHealth(nodes_api.stale)
        self._console = None
        if settings.console.enabled:
            self._console = Console(hub.view, self._freshness, self._health, clock, self._ring)
            self._console.add_to(app)
        self._health.add_to(app, metrics.text)
        host, port = listen_address.parse(settings.http_listen)
        # Beyond loopback the state of all nodes is shown only to certificate holders; probes use health_listen.
        authorities = None if listen_address.is_loopback(host) else self._authorities
        context = None if authorities is None else authorities.internal
        runner, port = await http.listen(app, host, port, context)
        _log.info("http_listening", port=port)
        runners = [runner]
        if settings.health_listen is not None and settings.health_listen != settings.http_listen:
            health = web.Application()
            self._health.add_to(health, metrics.text)
            runner, _ = await http.listen(health, *listen_address.parse(settings.health_listen))
            runners.append(runner)
        return runners

    async def _work(self, hub: Hub, client: kube.Kube, keeper: LeaseKeeper) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        messaging = self._messaging()
        upstream = UpstreamPublisher(
            hub, messaging, window=settings.link.upstream_window, counts=self._counts, spans=self._spans
        )

        claims = leadership.FenceClaims(keeper.fence)

        def claimed(node: str, fence: int) -> bool:
            nodes = hub.view.edge_nodes if hub.view.nodes_known else ()
            accepted = claims.record(node, fence, loop.time(), nodes=nodes)
            if accepted > hub.fence:
                written(accepted)
            return accepted > hub.fence

        def written(fence: int) -> None:
            """Raise the fence for a number seen in a status document, which only a hub can have written."""
            task = loop.create_task(self._raise_fence(hub, keeper, fence))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

        context = None if self._authorities is None else self._authorities.link
        traces = ChangeTraces(self._spans) if self._spans is not None else None
        identity = self._identity_service(hub, client, keeper)
        inputs = InputService(hub, messaging, counts=self._counts, may_send=keeper.may_send)
        server = LinkServer(
            hub,
            upstream,
            context=context,
            on_stale=claimed,
            is_leader=lambda: keeper.valid,
            may_send=keeper.may_send,
            counts=self._counts,
            traces=traces,
            joining=identity.joining if identity is not None else None,
            renewals=identity.renewals.accept if identity is not None else None,
            tables=TablePositions(hub, messaging),
            inputs=inputs,
            reports=StatusReports(
                hub, client, counts=self._counts, clock=loop.time, seconds_left=lambda: keeper.seconds_left
            ),
        )
        keeper.subscribe(server.abort_all)
        writer = StatusWriter(
            hub.documents,
            KubeStatusClient(client, seconds_left=lambda: keeper.seconds_left),
            clock=loop.time,
            in_flight=settings.record.writes_in_flight,
            fence=lambda: keeper.fence,
            may_write=lambda: keeper.valid,
            on_fenced=written,
            on_written=traces.recorded if traces is not None else None,
        )
        recorder = EventRecorder(client, hub.name, seconds_left=lambda: keeper.seconds_left)
        publisher = self._publisher(hub, messaging)
        self._metrics.serves(server, publisher, identity, inputs)
        self._inputs_api.serves(inputs)
        watches = Reflectors(
            client, hub, clock=loop.time, freshness=self._freshness, counts=self._counts, traces=traces
        )
        hub.started(loop.time())
        if self._console is not None:
            self._console.ask(messaging)
        publishers = [each for each in (publisher, self._console) if each is not None]
        ready = ReadyLoop(hub, server, documents=writer, kube_events=recorder, publishers=publishers)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(keeper.keep(), name="lease"),
                group.create_task(watches.run(), name="watches"),
                group.create_task(
                    writer.run(ready.soon, flush_seconds=settings.record.flush_seconds), name="status writer"
                ),
                group.create_task(kopf_handlers.run(self._access, hub.documents.rule_checked), name="operator"),
                group.create_task(self._heartbeat(hub, keeper), name="heartbeat"),
                group.create_task(recorder.run(ready.soon), name="events"),
                group.create_task(self._keep_topics(upstream), name="topics"),
                group.create_task(inputs.run(), name="inputs"),
            ]
            if publisher is not None:
                tasks.append(group.create_task(publisher.run(), name="cloud events"))
            if identity is not None:
                tasks.append(group.create_task(identity.run(), name="identity"))
            if self._authorities is not None:
                tasks.append(group.create_task(self._authorities.keep_loaded(), name="tls"))
                tasks.append(group.create_task(self._authorities.keep_link_loaded(), name="link tls"))
                await self._until_listed(hub)
            port = await server.start(*listen_address.parse(settings.listen))
            _log.info("link_listening", port=port, security=settings.security, fence=hub.fence)
            self._health.serves()
            await self._stop.wait()
            self._health.stops()
            self._inputs_api.serves(None)
            inputs.close()
            draining = group.create_task(server.drain(), name="drain")
            await asyncio.wait({draining}, timeout=GOODBYE_SECONDS)
            hub.stopped(loop.time())
            ready.perform()
            for task in tasks:
                task.cancel()
            await asyncio.wait([task for task in tasks if task.get_name() not in LINGERING])
            if self._exit == 0:
                await self._give_back(hub, server, writer, keeper)
        if self._console is not None:
            self._console.ask(None)
        if messaging is not None:
            await messaging.close()
        _log.info("stopped", exit=self._exit)

    async def _give_back(self, hub: Hub, server: LinkServer, writer: StatusWriter, keeper: LeaseKeeper) -> None:
        """Write what is left to the API server and release the Lease before doing anything that takes longer.

        A Pod that is force-deleted has two seconds, and its successor waits for the Lease.
        """
        now = asyncio.get_running_loop().time()
        if keeper.valid:
            hub.report(now, last=True)
            try:
                async with asyncio.timeout(FLUSH_AT_END_SECONDS):
                    ready = hub.take_ready(now)
                    server.send(ready.sessions)
                    await writer.write(ready.documents)
            except TimeoutError:
                _log.warning("status_unwritten", count=hub.view.unwritten)
        await keeper.release()

    def _identity_service(self, hub: Hub, client: kube.Kube, keeper: LeaseKeeper) -> IdentityService | None:
        settings, authorities = self._settings, self._authorities
        if authorities is None or settings.identity.signs_with == "off":
            return None
        from fairlead_hub.io.identity import identity_service

        def seconds_left() -> float:
            return keeper.seconds_left

        namespace = settings.namespace or self._access.namespace
        signer = self._signer or identity_service.cert_manager_signer(
            settings.identity, client, namespace=namespace, authorities=authorities, seconds_left=seconds_left
        )
        if signer is None:
            return None
        return identity_service.IdentityService(
            settings.identity,
            hub,
            client,
            signer=signer,
            roots=authorities.roots,
            issuers=authorities.issuers,
            own_certificate=authorities.own_certificate,
            own_chain=authorities.own_chain,
            trusted_nodes=authorities.trusted_nodes,
            clock=asyncio.get_running_loop().time,
            seconds_left=seconds_left,
            may_send=keeper.may_send,
            counts=self._counts,
        )

    def _messaging(self) -> AsyncClient | None:
        if self._settings.messaging_url is None:
            return None
        files = None
        if self._authorities is not None and self._settings.messaging_url.startswith("https://"):
            internal = self._authorities.internal_files
            files = Tls(ca=str(internal.ca), cert=str(internal.cert), key=str(internal.key))
        return AsyncClient(self._settings.messaging_url, tls=files)

    def _publisher(self, hub: Hub, messaging: AsyncClient | None) -> CloudEventPublisher | None:
        topic = self._settings.events.topic
        if messaging is None or not topic:
            return None
        source, epoch = f"/fairlead/hub/{hub.name}", secrets.randbits(EPOCH_BITS)
        return CloudEventPublisher(messaging, topic=topic, source=source, epoch=epoch)

    async def _heartbeat(self, hub: Hub, keeper: LeaseKeeper) -> None:
        """What time alone asks of the core: who lags, what rules and EdgeNodes say, the SyncController's slow pass."""
        loop = asyncio.get_running_loop()
        trimmed, before = 0, 0
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            hub.raise_fence(keeper.fence)
            if hub.view.counts.handshakes == before != trimmed:
                memory.give_back()
                trimmed = before
            before = hub.view.counts.handshakes
            if (summary := hub.heartbeat(loop.time())) is not None:
                said = {"returned": summary.returned, "missing": summary.missing, "seconds": round(summary.seconds, 1)}
                _log.info("nodes_returned", **said)

    async def _keep_topics(self, upstream: UpstreamPublisher) -> None:
        """Create topics, apart from the heartbeat, so that an unresponsive messaging service cannot stop it."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await upstream.ensure_topics()

    async def _raise_fence(self, hub: Hub, keeper: LeaseKeeper, seen: int) -> None:
        async with self._raising:  # a thousand nodes may report the same number at once
            if seen >= hub.fence and keeper.valid:
                try:
                    hub.raise_fence(await keeper.raise_to(seen + 1))
                except (api_error.ApiRefused, api_error.ApiUnavailable) as error:
                    _log.warning("fence_not_raised", reason=str(error))

    def _lost(self, reason: str) -> None:
        _log.error("lease_lost", reason=reason)
        self._exit = EXIT_LOST_LEASE
        self._stop.set()
