"""kopf: the operator's life around our own custom resources.

kopf watches SyncRules, EdgeRoutes and EdgeNodes and asks for a new verdict when one changes.  It never touches users'
objects: no finalizers, no annotations, no handler that would need them (so no timers and daemons of its own).  What is
delivered is watched by our own reflectors, which cost a fiftieth for each event and know when a list is complete.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import kopf

from fairlead_hub.io.kube import Access
from fairlead_hub.io.verdict_desk import VerdictDesk
from fairlead_wire.io import logs

GROUP, VERSION = "fairlead.dev", "v1alpha1"
RESTART_SECONDS = 2.0
_log = logs.get("hub.operator")


def handlers(access: Access, desk: VerdictDesk) -> kopf.OperatorRegistry:
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
        settings.process.ultimate_exiting_timeout = 5

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo:
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

    @kopf.on.event(GROUP, VERSION, "syncrules", registry=registry)
    async def rule_seen(name: str, **kwargs: Any) -> None:
        desk.ask("syncrules", name)

    @kopf.on.event(GROUP, VERSION, "edgeroutes", registry=registry)
    async def routes_seen(name: str, **kwargs: Any) -> None:
        desk.ask("edgeroutes", name)

    return registry


async def run(access: Access, desk: VerdictDesk) -> None:
    """Until cancelled.  An API server that goes away ends kopf's watches; then it is started again."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    while True:
        stop = asyncio.Event()
        try:
            await kopf.operator(
                registry=handlers(access, desk), standalone=True, clusterwide=True, stop_flag=stop, memo=kopf.Memo()
            )
        except asyncio.CancelledError:
            stop.set()
            raise
        except Exception as error:  # noqa: BLE001 - whatever ended it, the nodes are served on and kopf starts again
            _log.warning("operator_restarted", reason=str(error) or type(error).__name__)
        await asyncio.sleep(RESTART_SECONDS)
