"""The edge agent as a program: starting, reopening the stores after damage or a move, and exit codes.

It checks settings and file ownership (exit 2), takes the folder's lock and opens the stores (exit 1; it never falls
back to a store in memory), starts the local API, which serves the stored objects at once, and only then the link.  On
SIGTERM or SIGINT it accepts nothing new, commits what it has accepted, and exits with 0.  If the disk fails while it
runs, it exits with 1, so that the next start reads what is really on disk.
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
    "no settings: name a file with --config (the service uses /etc/fairlead/edge.toml); a device that has not joined a"
    " hub yet gets its settings from: fairlead edge join wss://HUB:PORT --token-file FILE"
)
OWNER_ONLY: Final = 0o077
"""The umask: the files hold Secrets, so only the agent's user may read them."""
REOPENINGS_MAX: Final = 5
REOPENINGS_SECONDS: Final = 600.0
"""If the stores are found damaged more often than this within this time, the program exits."""

_log = logs.get("edge.app")


def run(config: Path | None) -> int:
    """Run until SIGTERM or SIGINT, or until the node has left its hub.

    Returns the exit code: 0 stopped cleanly, 1 a store or port is unusable, 2 bad settings, files of another user, or
    the node is out of service.
    """
    try:
        load = partial(settings_io.load, "edge", EdgeSettings, config, os.environ)
        settings = load()
        logs.configure("edge", settings.log_level)
        os.umask(OWNER_ONLY)
        _serve_with_reopening(settings, ServiceManager.from_environment(os.environ), load)
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
    except Exception as error:  # noqa: BLE001 - a bug ends the program as a failed disk does: with one line in the log
        _log.error(
            "stopped", **logs.describe_error(error), remedy="report this bug and restart; accepted data is on disk"
        )
        return EXIT_FAILED
    return 0


def _serve_with_reopening(settings: EdgeSettings, manager: ServiceManager, load: Callable[[], EdgeSettings]) -> None:
    """Serve; reopen the stores when one is found damaged, which salvages it, and after a move to another hub.

    Raises ``StoreDamaged`` when damage is found too often.
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
            _log.error("store_damaged", reason=str(error), remedy="it is reopened, and everything readable is salvaged")
            manager.repairing()
            # As a fresh start would: after a move the file names the new hub, and the loaded settings the old one.
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
    """The agent on its open folder; the folder and the stores are closed on exit."""
    async with contextlib.AsyncExitStack() as stack:
        opened = await open_folder(settings, stack, thorough=thorough)
        spans = open_spans(opened.settings.traces, room="edge", version=distribution.version(), environ=os.environ)
        if spans is not None:
            stack.callback(spans.close)
        yield Agent(opened, spans)
