"""Connects probes with the functions that judge their results, for one device and its settings."""

from __future__ import annotations

import datetime
import os
import platform
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from fairlead_cli.doctor.device import agent, certificates, clock, disk, link, store
from fairlead_cli.doctor.examination import PERMISSION, Check, Finding, problem
from fairlead_edge.identity import clock as device_clock
from fairlead_edge.io.encryption import opening
from fairlead_edge.io.identity import identity_files, last_session
from fairlead_edge.io.moving.files import MoveFiles, MoveFilesError
from fairlead_edge.io.objects import schema as objects_schema
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.tables import schema as outbox_schema
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import distribution
from fairlead_wire.io import handshake, tls
from fairlead_wire.io import settings as settings_io
from fairlead_wire.validation import listen_address

LOCAL_SECONDS = 10.0
LINK_SECONDS = 30.0
HUNG_DISK = "the disk does not respond; check the kernel log (dmesg)"


def checks(settings: EdgeSettings) -> list[Check]:
    """All checks of the device; nothing is read before they run."""
    folder = Path(settings.data_dir)
    try:
        left = MoveFiles(folder).left()
    except MoveFilesError as error:
        unreadable = problem("service", str(error), PERMISSION)
        return [Check("service", LOCAL_SECONDS, lambda: [unreadable], "")]
    if left is not None:
        return [Check("service", LOCAL_SECONDS, lambda: agent.judge_left(left.node, left.at), "")]
    local = [
        ("versions", lambda: _programs(), "reinstall Fairlead from its package or wheel"),
        ("clock", lambda: clock.judge(_now(), clock.synchronised()), clock.SYNCHRONISE),
        ("disk", lambda: disk.judge(disk.probe(folder, settings.store.max_bytes)), HUNG_DISK),
        ("permissions", lambda: _permissions(settings, folder), HUNG_DISK),
        ("certificate", lambda: _certificates(settings), "check tls_ca, tls_cert and tls_key in the settings"),
        ("store", lambda: _stores(settings, folder), HUNG_DISK),
        ("encryption", lambda: _encryption(settings, folder), "check encryption_key in the settings"),
        ("agent", lambda: _running(settings, folder), "check http_listen in the settings, and the agent's log"),
    ]
    return [
        *(Check(name, LOCAL_SECONDS, probe, remedy) for name, probe, remedy in local),
        Check("link", LINK_SECONDS, lambda: _link(settings, folder), link.REMEDIES["tcp"]),
    ]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _programs() -> Iterator[Finding]:
    unknown = tuple(name for name, _ in settings_io.unknown_variables(os.environ))
    return agent.judge_programs(
        agent.Programs(
            fairlead=distribution.version(),
            python=platform.python_version(),
            sqlite=apsw.sqlite_lib_version(),
            unknown_variables=unknown,
        )
    )


def _permissions(settings: EdgeSettings, folder: Path) -> Iterator[Finding]:
    secrets = (("tls_key", settings.tls_key), ("token", str(folder / "token")))
    for what, path in secrets:
        if path and (found := agent.file(what, Path(path))) is not None:
            yield agent.judge_secret(found)
    if (whole := agent.file("data_dir", folder)) is not None:
        named = _named_files(settings)
        unreadable = agent.unreadable([Path(path) for path in named.values()], whole.owner)
        yield from agent.judge_readable(named, unreadable, whole.owner)
        inside = [*agent.files(folder), *agent.files(folder / identity_files.FOLDER)]
        yield from agent.judge_folder(whole, inside)


def _named_files(settings: EdgeSettings) -> dict[str, str]:
    """Every file that the agent reads, by the setting that names it."""
    mqtt, store = settings.mqtt, settings.store
    keys = {name: getattr(store, name) for name in ("encryption_key", "previous_encryption_key")}
    found = {
        **{name: getattr(settings, name) for name in ("tls_ca", "tls_cert", "tls_key")},
        **{f"mqtt.{name}": getattr(mqtt, name) for name in ("tls_ca", "tls_cert", "tls_key", "tokens_file")},
        "modules.tokens_file": settings.modules.tokens_file,
        **{f"store.{name}": key for name, key in keys.items() if not (key or "").startswith(opening.CREDENTIAL)},
    }
    return {setting: str(path) for setting, path in found.items() if path}


def _certificates(settings: EdgeSettings) -> Iterator[Finding]:
    if settings.security != "mtls":
        return
    files = _files(settings)
    yield from certificates.judge(certificates.read_files(files.ca, files.cert, files.key), settings.node, _now())
    found = certificates.read_identity(Path(settings.data_dir))
    yield from certificates.judge_identity(found, settings.tls_cert or "", settings.tls_key or "")


def _stores(settings: EdgeSettings, folder: Path) -> Iterator[Finding]:
    in_use = agent.in_use(folder)
    for what, limit, known in (
        ("objects", settings.store.object_bytes, objects_schema.VERSION),
        ("outbox", settings.store.message_bytes, outbox_schema.VERSION),
    ):
        path = folder / f"{what}.db"
        yield from store.judge_store(
            store.read_store(path, what, limit_bytes=limit, known_version=known, in_use=in_use), what
        )


def _encryption(settings: EdgeSettings, folder: Path) -> Iterator[Finding]:
    place = settings.store.encryption_key
    yield from store.judge_key(store.read_key(place, folder, os.environ) if place else None, place or "")


def _running(settings: EdgeSettings, folder: Path) -> Iterator[Finding]:
    status, error = _status(settings, folder)
    return agent.judge_running(agent.in_use(folder), status, error, distribution.version())


def _link(settings: EdgeSettings, folder: Path) -> Iterator[Finding]:
    context: ssl.SSLContext | None = None
    if settings.security == "mtls":
        try:
            context = tls.client_context(_files(settings))
        except tls.TlsFilesError:
            return  # ``certificate`` reports it; without these files no hub can be reached
        yield from _distrust(context, _files(settings), folder)
    # The hub closes a node's older session when a newer one begins: send no hello if an agent runs here.
    runs = agent.in_use(folder) or _status(settings, folder)[0] is not None
    hello = None if runs else agent.hello(folder, settings.node, distribution.version())
    trip = link.dial(settings.hub_url, context, hello)
    yield from link.judge(trip, _now(), settings.node)


def _distrust(context: ssl.SSLContext, files: tls.Files, folder: Path) -> Iterator[Finding]:
    """As in the agent: if the clock is clearly wrong, certificates are validated at the earliest plausible time."""
    own, last = files.certificate(), last_session.read(folder)
    judgement = device_clock.judge(
        store_clock.read(),
        last.time if last is not None else None,
        own_not_before=own.not_before.timestamp() if own is not None else None,
    )
    if judgement.distrust and isinstance(context, handshake.HandshakeContext):
        context.distrust_clock(judgement.earliest)
        text = (
            f"{judgement.distrust}: the agent does not trust the clock and validates certificates at that time instead"
        )
        yield problem("clock.distrusted", text, f"set the clock, then {clock.SYNCHRONISE}")


def _files(settings: EdgeSettings) -> tls.Files:
    assert settings.tls_ca and settings.tls_cert and settings.tls_key  # otherwise the settings would have been rejected
    return tls.Files(ca=Path(settings.tls_ca), cert=Path(settings.tls_cert), key=Path(settings.tls_key))


def _status(settings: EdgeSettings, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """The agent's status; not requested if the agent accepts only TLS with client certificates."""
    if not settings.plain_http:
        return None, ""
    host, port = listen_address.parse(settings.http_listen)
    return agent.status(f"http://{f'[{host}]' if ':' in host else host}:{port}", folder)
