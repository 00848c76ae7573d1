"""The messaging program: settings, store, HTTP, signals."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import signal
import socket
import ssl
import uuid
from pathlib import Path

import uvloop
from aiohttp import web

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.admission import ConnectionLimits, limits_of
from fairlead_messaging.server.io import access_control
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.committer import wall_clock_ms
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.rest import routes
from fairlead_messaging.server.io.rest.listening import ConnectionGate, Port, raise_descriptors
from fairlead_messaging.server.io.stores.data_dir import ServiceDataDir
from fairlead_messaging.server.io.stores.reopening_kv import ReopeningKV
from fairlead_messaging.server.io.stores.rocksdb_kv import OPEN_FILES_MAX, RocksKV
from fairlead_messaging.server.io.stores.sqlite_kv import FILE_NAME as SQLITE_FILE
from fairlead_messaging.server.io.stores.sqlite_kv import SqliteKV
from fairlead_messaging.server.io.token_reviewer import NoApiServer
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import OrderedKV
from fairlead_wire import distribution
from fairlead_wire.io import logs, tls
from fairlead_wire.io.settings import SettingsError, complain, load, warn_unknown_variables
from fairlead_wire.io.spans import CannotTrace, open_spans
from fairlead_wire.validation import listen_address

DRAIN_SECONDS = 10.0
HEALTH_LIMITS = ConnectionLimits(total=128, peer=96, peer_waiting=64)
"""How many connections ``health_listen`` has, which only answers probes."""
OWNER_ONLY = 0o077
"""No other user of the machine may read the files, which contain the messages of nodes."""

_log = logs.get("messaging.app")


def run(config: Path | None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    try:
        settings = _read(config)
    except SettingsError as error:
        return complain("messaging", error)
    logs.configure("messaging", settings.log_level)
    warn_unknown_variables(os.environ)
    os.umask(OWNER_ONLY)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, config))
    except CannotTrace as error:
        return complain("messaging", SettingsError("settings", "", str(error)))
    except (StorageError, OSError, tls.TlsFilesError, NoApiServer) as error:
        _log.error("cannot_serve", reason=str(error))
        return 1
    return 0


def open_store(
    settings: MessagingSettings, metrics: MessagingMetrics | None = None, *, open_files_max: int = OPEN_FILES_MAX
) -> OrderedKV:
    """The store in ``data_dir`` or a keyspace, which no other process can open until it is closed.

    Raises: StorageError if it cannot be opened; it names the process that has it open.
    """
    directory = Path(settings.data_dir)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if settings.store == "memory":
        return MemoryKV()
    if settings.store == "cassandra":
        # Only this store needs the driver, which is a separate package.
        from fairlead_messaging.server.io.metrics import CassandraMetrics
        from fairlead_messaging.server.io.stores.cassandra.cassandra_kv import open_cassandra

        name = f"process {os.getpid()} on {socket.gethostname()} since {now}"
        return open_cassandra(settings.cassandra, name, CassandraMetrics((metrics or MessagingMetrics()).registry))
    folder = ServiceDataDir(directory, now)
    try:
        match settings.store:
            case "rocksdb":
                home = directory / "rocksdb"

                def rocks(create: bool) -> RocksKV:
                    return RocksKV(home, create=create, open_files_max=open_files_max)

                return ReopeningKV(folder, rocks, home / "LOCK")
            case "sqlite":
                file = directory / SQLITE_FILE
                return ReopeningKV(folder, lambda create: SqliteKV(directory, create=create), file)
            case other:
                raise StorageError(f"no store {other}")  # the settings have refused it
    except BaseException:
        folder.close()
        raise


def _read(config: Path | None) -> MessagingSettings:
    return load("messaging", MessagingSettings, config, os.environ)


async def _serve(settings: MessagingSettings, config: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = MessagingMetrics()
    access = access_control.of_settings(settings, metrics)
    context, reloading = _tls(settings, metrics, tokens=access.takes_tokens)
    spans = open_spans(settings.traces, room="messaging", version=distribution.version(), environ=os.environ)
    descriptors = raise_descriptors()
    # In a thread, because opening may wait for a store that another instance has.
    store = await asyncio.to_thread(open_store, settings, metrics, open_files_max=min(OPEN_FILES_MAX, descriptors // 8))
    broker = Broker(store, settings, wall_clock_ms, str(uuid.uuid4()))
    limits = limits_of(descriptors)
    ports: list[contextlib.AsyncExitStack] = []
    access_reloading: asyncio.Task[None] | None = None
    if config is not None and settings.security != "insecure":
        access_reloading = loop.create_task(access_control.keep_loaded(config, settings, access, _read))
    try:
        await access.start()
        await broker.create_system_topics()
        main = routes.application(broker, metrics, spans, access)
        if settings.health_listen is None and settings.security == "insecure":
            routes.add_health(main)
        gate = ConnectionGate(limits, metrics, "main")
        ports.append(await _listen(main, settings.http_listen, context, "listening", gate))
        if settings.health_listen is not None:
            health = routes.health_application(broker, metrics)
            gate = ConnectionGate(HEALTH_LIMITS, metrics, "health")
            ports.append(await _listen(health, settings.health_listen, None, "health_listening", gate))
        await stop.wait()
        _log.info("stopping")
    finally:
        broker.stop_waiting()
        for port in ports:
            await port.aclose()
        await broker.close()
        await access.close()
        for task in (reloading, access_reloading):
            if task is not None:
                task.cancel()
        if spans is not None:
            spans.close()


def _tls(
    settings: MessagingSettings, metrics: MessagingMetrics, *, tokens: bool
) -> tuple[ssl.SSLContext | None, asyncio.Task[None] | None]:
    if settings.security == "insecure":
        _log.warning("insecure", reason="no TLS and no identities; loopback only")
        return None, None
    assert settings.tls_ca and settings.tls_cert and settings.tls_key
    files = tls.Files(ca=Path(settings.tls_ca), cert=Path(settings.tls_cert), key=Path(settings.tls_key))
    # A client with a token needs no certificate; one with neither is answered 401.
    context = tls.server_context(files, certificate_is_optional=tokens)
    metrics.show_certificate(files.ends)
    return context, asyncio.get_running_loop().create_task(tls.keep_loaded(context, files))


async def _listen(
    app: web.Application, listen: str, context: ssl.SSLContext | None, event: str, gate: ConnectionGate
) -> contextlib.AsyncExitStack:
    host, port = listen_address.parse(listen)
    app.middlewares.insert(1, gate.note)  # after the one that turns refusals into JSON
    # A disconnected client cancels its handler, so that an abandoned long poll does not go on waiting.
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN_SECONDS,
        auto_decompress=False,  # ``rest.http.body`` does it
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        opened = Port(runner, gate, host, port, context)
        stack.push_async_callback(opened.close)
        bound = opened.address
        _log.info(event, host=bound[0], port=bound[1], tls=context is not None)
        return stack.pop_all()
