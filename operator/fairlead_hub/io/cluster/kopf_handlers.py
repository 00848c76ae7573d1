"""kopf: the operator's handlers of what people write in SyncRules and EdgeRoutes.

    kopf's watch ─handler─▶ held against the model of its definition (``spec_check``) ─▶ SpecCheck ─▶ the hub's loop

The check runs in kopf's thread and ends in the condition ``Valid`` of the object.  Nothing that is sent to a node
waits for kopf: what decides is listed and watched by the hub's reflectors (decision 0400 says why).  kopf never touches
an object: no finalizers, no annotations, no handler that would need them (so no timers and daemons of its own).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import kopf

from fairlead_hub.cluster import spec_check
from fairlead_hub.cluster.spec_check import SpecCheck
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_wire import errors
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group

RESTART_SECONDS = 2.0
RESTART_SECONDS_MAX = 30.0
ENDING_SECONDS = 3.0
"""How long kopf may take to end when it is asked, and again when it is cancelled."""
LONG_LIFE_SECONDS = 60.0
"""A kopf that lived so long is started again at once, and the next pause is short."""
_log = logs.get("hub.operator")


def handlers(access: ApiAccess, hand: Callable[[SpecCheck], None]) -> kopf.OperatorRegistry:
    """A registry of this operator's own, so that two of them can live in one process (tests do)."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **kwargs: Any) -> None:
        settings.posting.enabled = False
        settings.watching.chunk_size = 500
        settings.watching.server_timeout = 300
        settings.watching.connect_timeout = 10
        settings.queueing.idle_timeout = 0.5
        settings.scanning.disabled = True
        settings.process.ultimate_exiting_timeout = None  # it would be SIGKILL for the whole hub

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo:
        # Asked at the start and after a 401: whatever token is on disk now.
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


def _checked(collection: spec_check.Collection, body: kopf.Body) -> SpecCheck:
    metadata, spec = body["metadata"], body.get("spec")
    generation = metadata.get("generation", 0)
    return spec_check.check(collection, metadata["name"], metadata["uid"], generation, spec)


async def run(access: ApiAccess, checked: Callable[[SpecCheck], None]) -> None:
    """Until cancelled; ``checked`` is called in the loop of the caller.

    An API server that goes away ends kopf's watches; then it is started again.

    In a thread and loop of its own: when kopf ends, it takes the signals and every task of its loop along.
    """
    # One object it cannot decode ends kopf, with two stack traces: ``operator_restarted`` says the same in a line.
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
    """A life of kopf in a thread that stops nothing else when it does not end; the future says why it ended."""
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
    """One life of kopf; returns why it ended."""
    failed: list[str] = []
    try:
        asyncio.run(_work(registry, stop, failed))
    except Exception as error:  # noqa: BLE001 - whatever ended it, the nodes are served on and kopf starts again
        return errors.text_of(error)
    return failed[0] if failed else "ended"


async def _work(registry: kopf.OperatorRegistry, stop: threading.Event, failed: list[str]) -> None:
    """``failed`` gets the reason why a task ended that nothing waits for."""

    def end(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Other tasks of kopf may wait for this one for ever (its login after a refused token): start anew.
        error = context.get("exception")
        failed.append(errors.described(error) if error else context["message"])
        _log.warning("operator_task_failed", reason=failed[-1])
        stop.set()

    asyncio.get_running_loop().set_exception_handler(end)
    life = asyncio.create_task(kopf.operator(registry=registry, standalone=True, clusterwide=True, stop_flag=stop))
    stopped = asyncio.create_task(asyncio.to_thread(stop.wait))
    try:
        await asyncio.wait({life, stopped}, return_when=asyncio.FIRST_COMPLETED)
        # It may wait for a task of its own that is gone, and then asking is not enough.
        for _ in range(2):
            if not (await asyncio.wait({life}, timeout=ENDING_SECONDS))[0]:
                life.cancel()
        if life.done() and not life.cancelled():
            life.result()
    finally:
        # kopf waits for the flag in a thread of its own; without this, a kopf that gave up would wait for it for ever.
        stop.set()
