"""The edge agent as a program: it starts, restarts after damage or a move, and ends with an exit code.

Starting: settings and whose the files are (exit 2), the folder's lock and the stores (exit 1, never a store in memory
instead), then the local API, which serves what is held at once, and only then the link.  SIGTERM or SIGINT: nothing
new is taken, what was taken is committed, exit 0.  A disk that fails while running ends the program with exit 1, so
that the next start reads what is really there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from fairlead_edge.errors import NotPermitted, OutOfService, StoreDamaged, StoreFailed, StoreUnusable
from fairlead_edge.io.agent import Agent
from fairlead_edge.io.encryption import opening
from fairlead_edge.io.identity.identity_files import IdentityFilesError
from fairlead_edge.io.local_api.listener import CannotListen
from fairlead_edge.io.moving.files import MoveFilesError
from fairlead_edge.io.moving.mover import Switched
from fairlead_edge.io.opened_folder import open_folder
from fairlead_edge.io.service_manager import ServiceManager
from fairlead_edge.module_tokens import BadTokens
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import distribution
from fairlead_wire.io import logs, tls
from fairlead_wire.io import settings as settings_io
from fairlead_wire.io.spans import CannotTrace, open_spans

EXIT_FAILED: Final = 1
NO_SETTINGS: Final = (
    "no settings: give the file with --config (that of the service is /etc/fairlead/edge.toml); a device that belongs"
    " to no hub yet gets its settings by: fairlead edge join wss://HUB:PORT --token-file FILE"
)
OWNER_ONLY: Final = 0o077
"""The files hold Secrets: only the agent's user may read what it creates."""
REOPENINGS_MAX: Final = 5
REOPENINGS_SECONDS: Final = 600.0
"""When the stores are damaged more often than this in this time, the program gives up and ends."""

_log = logs.get("edge.app")


def run(config: Path | None) -> int:
    """Run until SIGTERM or SIGINT, or until the node has left its hub.

    Returns the exit code: 0 drained, 1 store or port unusable, 2 bad settings, files of another user, or the node is
    out of service.
    """
    try:
        load = partial(settings_io.load, "edge", EdgeSettings, config, os.environ)
        settings = load()
        logs.configure("edge", settings.log_level)
        os.umask(OWNER_ONLY)
        _run_again_after_damage(settings, ServiceManager.from_environment(os.environ), load)
    except settings_io.SettingsError as error:
        if config is None and not any(name.startswith("FAIRLEAD_EDGE_") for name in os.environ):
            print(f"fairlead edge: {NO_SETTINGS}", file=sys.stderr)
            return settings_io.EXIT_STATUS
        return settings_io.complain("edge", error)
    except OutOfService as error:
        _log.info("out_of_service", reason=str(error))
        print(f"fairlead edge: {error}", file=sys.stderr)
        return 0 if error.now else settings_io.EXIT_STATUS
    except (NotPermitted, tls.TlsFilesError, BadTokens, CannotTrace, opening.BadKey) as error:
        print(f"fairlead edge: {error}", file=sys.stderr)
        return settings_io.EXIT_STATUS
    except (StoreUnusable, StoreFailed, CannotListen, MoveFilesError, IdentityFilesError) as error:
        _log.error("stopped", reason=str(error))
        print(f"fairlead edge: {error}", file=sys.stderr)
        return EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - a defect of ours ends the program like a failed disk: named, in one line
        _log.error(
            "stopped", **logs.describe_error(error), remedy="report it; what was accepted is on disk, start it again"
        )
        return EXIT_FAILED
    return 0


def _run_again_after_damage(settings: EdgeSettings, manager: ServiceManager, load: Callable[[], EdgeSettings]) -> None:
    """A store that is found damaged while in use is reopened, which salvages it, but not for ever.

    The stores are also reopened when the node has moved to another hub.
    """
    damaged: deque[float] = deque(maxlen=REOPENINGS_MAX)
    while True:
        try:
            return uvloop.run(_serve(settings, manager, thorough=bool(damaged)))
        except Switched:
            settings = load()
        except StoreDamaged as error:
            now = time.monotonic()
            if len(damaged) == REOPENINGS_MAX and now - damaged[0] < REOPENINGS_SECONDS:
                raise
            damaged.append(now)
            _log.error("store_damaged", reason=str(error), remedy="it is reopened, and what can be read is saved")
            manager.repairing()
            # As a start would find them: after a move the file names the new hub, and what was loaded the old one.
            with contextlib.suppress(settings_io.SettingsError):
                settings = load()


async def _serve(settings: EdgeSettings, manager: ServiceManager, *, thorough: bool) -> None:
    """``thorough``: damage was found, so the stores are checked completely before they are used."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with _opened(settings, thorough=thorough) as agent:
        await agent.run(stopping, manager)


@contextlib.asynccontextmanager
async def _opened(settings: EdgeSettings, *, thorough: bool) -> AsyncIterator[Agent]:
    """The folder, its token and the stores; closed in the end whatever happened."""
    async with contextlib.AsyncExitStack() as stack:
        opened = await open_folder(settings, stack, thorough=thorough)
        spans = open_spans(opened.settings.traces, room="edge", version=distribution.version(), environ=os.environ)
        if spans is not None:
            stack.callback(spans.close)
        yield Agent(opened, spans)
