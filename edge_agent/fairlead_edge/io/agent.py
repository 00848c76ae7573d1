"""The running agent: builds all parts, connects them, and runs their loops.

The local API serves the stored objects at once; only then is the hub dialled.  When the agent is stopped, it accepts
nothing new and commits what it has accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

from fairlead_edge.errors import StoreDamaged, StoreFailed
from fairlead_edge.io import data_plan, mqtt
from fairlead_edge.io.identity import keeper as identity_keeper
from fairlead_edge.io.link.link import Link
from fairlead_edge.io.local_api import publish_api, server, status_api
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.io.local_api.connections import LocalConnections
from fairlead_edge.io.local_api.listener import DRAIN_SECONDS_MAX, listen
from fairlead_edge.io.local_api.objects_api import ObjectsApi
from fairlead_edge.io.module_tokens_file import ModuleTokensFile
from fairlead_edge.io.moving.files import MoveFiles
from fairlead_edge.io.moving.mover import Mover, Switched
from fairlead_edge.io.opened_folder import OpenedFolder
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.io.routes_in_use import RoutesCopy, RoutesInUse
from fairlead_edge.io.service_manager import ServiceManager
from fairlead_edge.io.status_reporter import StatusReporter
from fairlead_edge.io.status_sender import StatusSender
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_edge.outbox.router import Router
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import distribution
from fairlead_wire.io import logs, tls
from fairlead_wire.io.spans import Spans
from fairlead_wire.validation import listen_address

_log = logs.get("edge.app")


class Agent:
    """The agent on an opened folder; ``run`` serves until it is stopped."""

    def __init__(self, opened: OpenedFolder, spans: Spans | None) -> None:
        settings, folder, token, store, outbox, encrypted = opened
        self._settings = settings
        self._folder = folder
        self._store = store
        self._outbox = outbox
        self._stopping = False
        agent = distribution.version()
        tokens_file = settings.modules.tokens_file
        self._module_tokens = ModuleTokensFile(Path(tokens_file)) if tokens_file else None
        modules = self._module_tokens.read_tokens if self._module_tokens else None
        guard = AccessGuard(token, required=settings.security == "mtls", modules=modules)
        access = guard if modules else None
        self._statuses = StatusSender(store.statuses, store.log, Random())
        self._objects = ObjectsApi(
            store,
            agent=agent,
            age_of=self._age_of,
            secrets_allowed=guard.knows,
            statuses=store.statuses,
            now=outbox.now,
        )
        self._client_tls: tls.ClientTls | None = None
        self._server_tls: ssl.SSLContext | None = None
        if settings.security == "mtls":
            self._client_tls = tls.ClientTls(_files(settings))
            self._server_tls = tls.server_context(_files(settings), verifies_clients=False)
        self._identity = identity_keeper.open_keeper(
            settings, folder.path, store, agent=agent, renew=lambda request: self._link.renew(request)
        )
        self._plan = data_plan.open_plan(settings, folder.path, clock=outbox.now)
        self._link = Link(
            hub_url=settings.hub_url,
            node=settings.node,
            agent=agent,
            store_epoch=outbox.epoch,
            store=store,
            clock=outbox.now,
            random=Random(),
            attempt_seconds_max=settings.link.attempt_seconds_max,
            stale_hub_seconds=settings.link.stale_hub_seconds,
            client_tls=self._client_tls,
            unfit=self._unfit,
            spans=spans,
            identity=self._identity,
            meter=self._plan.meter,
            inputs=lambda: self._upstream.inputs,
            statuses=self._statuses,
        )
        self._statuses.follow(self._link)
        self._upstream = UpstreamService(
            outbox=outbox,
            node=settings.node,
            link=self._link,
            random=Random(),
            cleanup_seconds=settings.cleanup.interval_seconds,
            check_entire_queue=settings.cleanup.check_entire_queue_on_cleanup,
            evict=settings.store.evict == "less-urgent",
            policy=settings.upstream.delivery,
            brokered_policy=settings.brokered.delivery,
            spans=spans,
            modules_have_tokens=modules is not None,
            plan=self._plan,
            floor_share=settings.pump.floor_share,
            live_first_share=settings.pump.live_first_share,
        )
        self._mqtt = mqtt.open_if_set(settings, self._upstream, self._module_tokens)
        self._mover = Mover(MoveFiles(folder.path), link=self._link, upstream=self._upstream)
        self._routes = RoutesInUse(
            settings.node,
            store,
            RoutesCopy(folder.path / "routes.copy", encrypted.objects),
            default_ttl_seconds=settings.store.default_ttl_seconds,
            use=self._use_router,
            changed=lambda: self._reporter.changed(),
        )
        self._connections = LocalConnections()
        self._reporter = StatusReporter(
            node=settings.node,
            agent=agent,
            object_bytes_max=settings.store.object_bytes,
            store=store,
            outbox=outbox,
            link=self._link,
            upstream=self._upstream,
            watches=self._objects.watches,
            connections=self._connections,
            routes=self._routes,
            statuses=self._statuses,
            certificate_ends=_files(settings).ends if settings.security == "mtls" else None,
            encryption=opened.encryption,
            identity=self._identity.status if self._identity is not None else None,
            line=self._plan.status,
            mqtt=self._mqtt.status if self._mqtt is not None else None,
        )
        self._http = server.application(
            guard,
            status=self._reporter.status,
            metrics=self._reporter.metrics,
            unready=self._unready,
            parts=[
                self._objects.add_routes,
                lambda app: publish_api.add_routes(app, self._upstream, access),
                lambda app: status_api.add_routes(app, self._statuses, outbox.now),
            ],
        )

    async def run(self, stopping: asyncio.Event, manager: ServiceManager) -> None:
        """Serve until ``stopping``.  Raises ``CannotListen`` (a port is taken), ``StoreFailed`` (the disk fails)."""
        await self._reporter.count()
        await self._routes.load()
        self._store.log.listen(self._changed)
        self._store.on_damage(self._damaged)
        async with contextlib.AsyncExitStack() as stack:
            await self._listen(stack)
            tasks = [asyncio.create_task(loop, name=name) for name, loop in self._loops()]
            tasks.append(asyncio.create_task(manager.keep_alive(), name="watchdog"))
            _log.info("started", node=self._settings.node, held=self._reporter.held, store_epoch=self._outbox.epoch)
            manager.ready()
            stop = asyncio.create_task(stopping.wait())
            try:
                await first_failure(tasks, stop)
            finally:
                self._stopping = True
                # Not after damage or a move: the program goes on, and STOPPING=1 cannot be taken back from systemd.
                if not isinstance(sys.exception(), StoreDamaged | Switched):
                    manager.stopping()
                _log.info("stopping")
                await self._drain([*tasks, stop])

    def _unfit(self) -> str:
        return _files(self._settings).unfit(self._settings.node) if self._client_tls is not None else ""

    def _loops(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        loops: list[tuple[str, Coroutine[Any, Any, None]]] = [
            ("clock", self._outbox.keep_time()),
            ("scrub", self._outbox.scrubber.run()),
            ("scrub objects", self._store.keep_sound()),
            ("stores", self._watch_stores()),
            ("reserve", self._folder.keep_reserve()),
            ("link", self._link.run()),
            ("report", self._reporter.run()),
            ("upstream", self._upstream.run()),
            ("statuses", self._statuses.run()),
            ("move", self._mover.run()),
            ("plan", self._plan.run()),
        ]
        if self._mqtt is not None:
            loops.append(("mqtt", self._mqtt.run()))
        if self._module_tokens is not None:
            loops.append(("module tokens", self._module_tokens.keep_loaded()))
        node = self._settings.node
        if self._client_tls is not None:
            loops.append(("tls", self._client_tls.keep_loaded(node, on_reload=self._link.certificate_replaced)))
        if self._identity is not None and self._identity.renewer is not None:
            loops.append(("renewal", self._identity.renewer.run()))
        if self._identity is not None:
            loops.append(("authorities", self._identity.authorities.run(self._reporter.changed)))
        if self._server_tls is not None:
            loops.append(("local tls", tls.keep_loaded(self._server_tls, _files(self._settings), node)))
        return loops

    async def _watch_stores(self) -> None:
        """End the agent when a store has failed, whichever caller noticed it."""
        writers = (self._store.writer, self._outbox.writer)
        waiting = [asyncio.create_task(writer.failed.wait()) for writer in writers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        raise next(writer.error() for writer in writers if writer.failure)

    async def _drain(self, tasks: list[asyncio.Task[Any]]) -> None:
        had_session = self._link.upstream_window > 0
        self._link.stop()
        if had_session:  # let the link say goodbye to the hub
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS_MAX):
                    await self._link.ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.write_contact()
        self._plan.close()

    # ---- listening -------------------------------------------------------------------------------

    async def _listen(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self._settings
        host, port = listen_address.parse(settings.http_listen)
        await stack.enter_async_context(
            await listen(
                self._http,
                key="http_listen",
                host=host,
                port=port,
                context=self._server_tls,
                plain=settings.plain_http,
                known=self._connections,
            )
        )
        if settings.health_listen and settings.health_listen != settings.http_listen:
            health = server.health_application(metrics=self._reporter.metrics, unready=self._unready)
            host, port = listen_address.parse(settings.health_listen)
            await stack.enter_async_context(await listen(health, key="health_listen", host=host, port=port))

        if self._mqtt is not None:
            await stack.enter_async_context(self._mqtt.listening())

    # ---- what changes ----------------------------------------------------------------------------

    def _damaged(self, objects: int) -> None:
        self._reporter.lost(objects)
        self._objects.watches.wake()
        self._link.compare_again(f"{objects} objects on disk are damaged and are requested again")

    def _changed(self, change: VersionedChange[HeldObject]) -> None:
        self._reporter.follow(change)
        self._routes.follow(change)

    def _use_router(self, router: Router | None, unusable: str) -> None:
        self._upstream.use_router(router, unusable)
        if router is not None:
            self._upstream.inherit(router.defaults)

    def _age_of(self, held: HeldObject) -> float:
        now, contact = self._outbox.now(), self._link.last_contact()
        known = held.stored_at if contact is None else max(contact, held.stored_at)
        # A clock behind the record was restarted (its file was removed): at least its whole reading has passed.
        return now - known if known <= now else now

    def _unready(self) -> str:
        failure = self._store.failure or self._outbox.writer.failure
        if failure:
            return f"the disk failed: {failure}"
        return "stopping" if self._stopping else ""


def _files(settings: EdgeSettings) -> tls.Files:
    assert settings.tls_ca and settings.tls_cert and settings.tls_key  # EdgeSettings refuses mtls without them
    return tls.Files(ca=Path(settings.tls_ca), cert=Path(settings.tls_cert), key=Path(settings.tls_key))


async def first_failure(tasks: list[asyncio.Task[Any]], stop: asyncio.Task[Any]) -> None:
    """Wait for ``stop``; raise the first exception of a task.  A task may return, as the link does when refused."""
    running = set(tasks)
    while not stop.done():
        done, _ = await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            running.discard(task)
            if (error := task.exception()) is not None:
                raise _innermost(error)


def _innermost(error: BaseException) -> BaseException:
    """The failure inside nested exception groups; of several, the disk's is preferred."""
    while isinstance(error, BaseExceptionGroup):
        failed = error.subgroup(StoreFailed) or error
        error = failed.exceptions[0]
    return error
