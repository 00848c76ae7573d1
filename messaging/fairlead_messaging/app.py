"""The messaging program: settings, store, HTTP, signals."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import ssl
import uuid
from pathlib import Path

import uvloop
from aiohttp import web

from fairlead_messaging.errors import StorageError
from fairlead_messaging.io import rest
from fairlead_messaging.io.broker import Broker
from fairlead_messaging.io.committer import wall_clock_ms
from fairlead_messaging.io.data_dir import DataDir
from fairlead_messaging.io.metrics import Metrics
from fairlead_messaging.io.reopening import ReopeningKV
from fairlead_messaging.io.rocksdb_kv import RocksKV
from fairlead_messaging.io.sqlite_kv import FILE_NAME as SQLITE_FILE
from fairlead_messaging.io.sqlite_kv import SqliteKV
from fairlead_messaging.kv import MemoryKV, OrderedKV
from fairlead_messaging.settings import MessagingSettings, parse_listen
from fairlead_wire.io import logs, tls
from fairlead_wire.io.settings import SettingsError, complain, load, tell_strange

DRAIN_SECONDS = 10.0
OWNER_ONLY = 0o077
"""What nodes say is between them and those who may ask: no other user of this machine reads the files."""

_log = logs.get("messaging.app")


def run(config: Path | None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    try:
        settings = load("messaging", MessagingSettings, config, os.environ)
    except SettingsError as error:
        return complain("messaging", error)
    logs.configure("messaging", settings.log_level)
    tell_strange(os.environ)
    os.umask(OWNER_ONLY)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except (StorageError, OSError, tls.TlsFilesError) as error:
        _log.error("cannot_serve", reason=str(error))
        return 1
    return 0


def open_store(settings: MessagingSettings) -> OrderedKV:
    """The store of ``data_dir``, which no other process has until it is closed.

    Raises: StorageError when it cannot be opened, or naming the process that has it.
    """
    directory = Path(settings.data_dir)
    if settings.store == "memory":
        return MemoryKV()
    folder = DataDir(directory, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    try:
        match settings.store:
            case "rocksdb":
                home = directory / "rocksdb"
                return ReopeningKV(folder, lambda create: RocksKV(home, create=create), home / "LOCK")
            case "sqlite":
                file = directory / SQLITE_FILE
                return ReopeningKV(folder, lambda create: SqliteKV(directory, create=create), file)
            case other:
                raise StorageError(f"no store {other}")  # settings refuse it before
    except BaseException:
        folder.close()
        raise


async def _serve(settings: MessagingSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    context, reloading = _tls(settings)
    broker = Broker(open_store(settings), settings, wall_clock_ms, str(uuid.uuid4()))
    metrics = Metrics()
    runners: list[web.AppRunner] = []
    try:
        await broker.create_system_topics()
        main = rest.application(broker, metrics)
        if settings.health_listen is None and settings.security == "insecure":
            rest.add_health(main)
        runners.append(await _listen(main, settings.http_listen, context, "listening"))
        if settings.health_listen is not None:
            health = rest.health_application(broker, metrics)
            runners.append(await _listen(health, settings.health_listen, None, "health_listening"))
        await stop.wait()
        _log.info("stopping")
    finally:
        broker.stop_waiting()
        for runner in runners:
            await runner.cleanup()
        await broker.close()
        if reloading is not None:
            reloading.cancel()


def _tls(settings: MessagingSettings) -> tuple[ssl.SSLContext | None, asyncio.Task[None] | None]:
    if settings.security == "insecure":
        _log.warning("insecure", reason="no TLS and no identities; loopback only")
        return None, None
    assert settings.tls_ca and settings.tls_cert and settings.tls_key
    files = tls.Files(ca=Path(settings.tls_ca), cert=Path(settings.tls_cert), key=Path(settings.tls_key))
    context = tls.server_context(files)
    return context, asyncio.get_running_loop().create_task(tls.keep_loaded(context, files))


async def _listen(app: web.Application, listen: str, context: ssl.SSLContext | None, event: str) -> web.AppRunner:
    host, port = parse_listen("listen", listen)
    # Disconnected clients cancel their handlers: an abandoned long poll must not go on waiting.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=context, backlog=1024)
    await site.start()
    bound = runner.addresses[0]
    _log.info(event, host=bound[0], port=bound[1], tls=context is not None)
    return runner
