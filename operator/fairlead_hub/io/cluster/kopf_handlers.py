"""kopf: the operator's handlers for SyncRules and EdgeRoutes.

    kopf's watch ─handler─▶ validated with the model of its definition (``sync_rule``) ─▶ SpecCheck ─▶ the hub's loop

The check runs in kopf's thread and results in the object's condition ``Valid``.  Nothing that is sent to a node waits
for kopf: decisions are based on what the hub's reflectors list and watch (decision 0400 says why).  kopf never modifies
an object: no finalizers, no annotations, and no handler that would need them (so no kopf timers or daemons).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import kopf

from fairlead_hub.cluster.sync_rule import Collection, SpecCheck, check_spec
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_wire import errors
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group

RESTART_SECONDS = 2.0
RESTART_SECONDS_MAX = 30.0
ENDING_SECONDS = 3.0
"""How long kopf may take to end after it is asked, and again after it is cancelled."""
LONG_LIFE_SECONDS = 60.0
"""If kopf ran for this long it is restarted immediately, and the next pause is short."""
_log = logs.get("hub.operator")


def handlers(access: ApiAccess, hand: Callable[[SpecCheck], None]) -> kopf.OperatorRegistry:
    """A registry per operator, so that several can run in one process (tests do that)."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **kwargs: Any) -> None:
        settings.posting.enabled = False
        settings.watching.chunk_size = 500
        settings.watching.server_timeout = 300
        settings.watching.connect_timeout = 10
        settings.queueing.idle_timeout = 0.5
        settings.scanning.disabled = True
        settings.process.ultimate_exiting_timeout = None  # it would SIGKILL the whole hub

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo:
        # Called at the start and after a 401: returns the token that is on disk now.
        access.renew()
        scheme, _, token = access.headers().get("Authorization", "").partition(" ")
        return kopf.ConnectionInfo(
            server=access.server,
            ca_path=access.ca,
            certificate_path=access.cert,
            private_key_path=access.key,
            insecure=not access.verify,
            scheme=scheme or None,
            token=token or None,
        )

    @kopf.on.event(api_group.GROUP, api_group.VERSION, "syncrules", registry=registry)
    async def rule_seen(type: str | None, body: kopf.Body, **kwargs: Any) -> None:
        if type != "DELETED":
            hand(_checked("syncrules", body))

    @kopf.on.event(api_group.GROUP, api_group.VERSION, "edgeroutes", registry=registry)
    async def routes_seen(type: str | None, body: kopf.Body, **kwargs: Any) -> None:
        if type != "DELETED":
            hand(_checked("edgeroutes", body))

    return registry


def _checked(collection: Collection, body: kopf.Body) -> SpecCheck:
    metadata, spec = body["metadata"], body.get("spec")
    generation = metadata.get("generation", 0)
    return check_spec(collection, metadata["name"], metadata["uid"], generation, spec)


async def run(access: ApiAccess, checked: Callable[[SpecCheck], None]) -> None:
    """Run until cancelled; ``checked`` is called in the caller's loop.

    If the API server goes away, kopf's watches end and kopf is restarted.

    kopf runs in its own thread and loop: when it ends, it takes the signal handlers and every task of its loop along.
    """
    # An object it cannot decode ends kopf with two stack traces: ``operator_restarted`` says the same in one line.
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()

    def hand(check: SpecCheck) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the hub has ended
            loop.call_soon_threadsafe(checked, check)

    wait = RESTART_SECONDS
    while True:
        stop, started = threading.Event(), loop.time()
        life = _begin(handlers(access, hand), stop)
        try:
            reason = await asyncio.shield(life)
        except asyncio.CancelledError:
            stop.set()
            if not (await asyncio.wait({life}, timeout=3 * ENDING_SECONDS))[0]:
                _log.warning("operator_left_behind", reason="kopf did not end; it writes nothing, and ends with us")
            raise
        if loop.time() - started >= LONG_LIFE_SECONDS:
            wait = RESTART_SECONDS
        _log.warning("operator_restarted", reason=reason, retry_seconds=wait)
        await asyncio.sleep(wait)
        wait = min(2 * wait, RESTART_SECONDS_MAX)


def _begin(registry: kopf.OperatorRegistry, stop: threading.Event) -> asyncio.Future[str]:
    """Start kopf in a thread that blocks nothing if it does not end; the future says why it ended."""
    loop = asyncio.get_running_loop()
    life: asyncio.Future[str] = loop.create_future()

    def tell(reason: str) -> None:
        if not life.done():
            life.set_result(reason)

    def live() -> None:
        reason = _live(registry, stop)
        with contextlib.suppress(RuntimeError):  # our own loop is closed: nothing waits any more
            loop.call_soon_threadsafe(tell, reason)

    threading.Thread(target=live, name="kopf", daemon=True).start()
    return life


def _live(registry: kopf.OperatorRegistry, stop: threading.Event) -> str:
    """Run kopf once; returns why it ended."""
    failed: list[str] = []
    try:
        asyncio.run(_work(registry, stop, failed))
    except Exception as error:  # noqa: BLE001 - whatever ended it, the nodes are served on and kopf starts again
        return errors.text_of(error)
    return failed[0] if failed else "ended"


async def _work(registry: kopf.OperatorRegistry, stop: threading.Event, failed: list[str]) -> None:
    """``failed`` receives the reason if a task ended that nothing awaits."""

    def end(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Other kopf tasks may wait forever for this one (its login after a refused token): restart.
        error = context.get("exception")
        failed.append(errors.described(error) if error else context["message"])
        _log.warning("operator_task_failed", reason=failed[-1])
        stop.set()

    asyncio.get_running_loop().set_exception_handler(end)
    life = asyncio.create_task(kopf.operator(registry=registry, standalone=True, clusterwide=True, stop_flag=stop))
    stopped = asyncio.create_task(asyncio.to_thread(stop.wait))
    try:
        await asyncio.wait({life, stopped}, return_when=asyncio.FIRST_COMPLETED)
        # It may wait for one of its own tasks that is gone; then asking is not enough.
        for _ in range(2):
            if not (await asyncio.wait({life}, timeout=ENDING_SECONDS))[0]:
                life.cancel()
        if life.done() and not life.cancelled():
            life.result()
    finally:
        # kopf waits for the flag in a separate thread; without this, a kopf that gave up would wait forever.
        stop.set()
