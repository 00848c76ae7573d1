"""Mutual TLS: both sides show a certificate of the same authority; files are read again when they change.

Identity is the certificate's name and nothing else: the common name of its subject, or, when it carries
none, the first DNS name of its subject alternative names.

A context can be given more authorities, but never fewer.  Therefore a new one is made when files change, on both sides
(``ClientTls``, ``renew``): an authority that was taken out is trusted no more from the next handshake on.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead_wire.errors import FairleadError
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate
from fairlead_wire.io import logs
from fairlead_wire.io.handshake import ClientContext, HandshakeContext, ServerContext
from fairlead_wire.log_limiter import LogLimiter

RELOAD_SECONDS = 5.0
REMINDED_SECONDS = 86_400.0
READABLE_BY_ALL = 0o004
ISSUER_CHARS_MAX = 253
SPIFFE = "spiffe://"
NODE_ROLE = "node"
"""In a certificate's ``spiffe://<installation>/node/<name>``."""
RFC_3339 = "%Y-%m-%dT%H:%M:%SZ"
_log = logs.get("wire.tls")
_reminded = LogLimiter(REMINDED_SECONDS)


class TlsFilesError(FairleadError):
    """A certificate, key or authority file cannot be used; the text names the file."""


class Files:
    """The three files of one side, and what they looked like when they were last read."""

    def __init__(self, *, ca: Path, cert: Path, key: Path, ca_setting: str = "tls_ca") -> None:
        """``ca_setting``: what the authorities' file is called in the settings, for errors."""
        self.ca, self.cert, self.key = ca, cert, key
        self._ca_setting = ca_setting
        self._seen = self._stamps()

    def changed(self) -> bool:
        """True once after any of the files was replaced."""
        now = self._stamps()
        if now == self._seen:
            return False
        self._seen = now
        return True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raises ``TlsFilesError`` naming the file that does not work."""
        try:
            context.load_verify_locations(cafile=str(self.ca))
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(f"{self._ca_setting} {self.ca}: {error}") from None
        self.load_own_into(context)

    def load_own_into(self, context: ssl.SSLContext) -> None:
        """Certificate and key alone, for a side that asks the other for no certificate.  Raises as ``load_into``."""
        try:
            context.load_cert_chain(str(self.cert), str(self.key))
            if self.key.stat().st_mode & READABLE_BY_ALL:
                _log.warning("tls_key_readable", file=str(self.key), reason="every user of this machine may read it")
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(f"tls_cert {self.cert} with tls_key {self.key}: {error}") from None
        if isinstance(context, HandshakeContext):
            context.own = self.certificate()

    def certificate(self) -> Certificate | None:
        """Our own certificate; None when it cannot be read."""
        try:
            return certificate.read(self.cert.read_bytes())
        except (OSError, ValueError):
            return None

    def ends(self) -> float:
        """When our own certificate ends, a Unix time; 0: it cannot be read."""
        own = self.certificate()
        return own.not_after.timestamp() if own else 0.0

    def unfit(self, name: str | None = None, now: datetime.datetime | None = None) -> str:
        """Why the other side will not take our certificate, as far as we can tell, or ""."""
        own = self.certificate()
        wrong = certificate.unfit(own, now or datetime.datetime.now(datetime.UTC), name) if own else ""
        return f"tls_cert {self.cert} {wrong}" if wrong else ""

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        stamps: list[tuple[int, int, int] | None] = []
        for path in (self.ca, self.cert, self.key):
            try:
                status = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(stamps)


class _ServerContext(ServerContext):
    """Hands each handshake over to ``newest``, which is itself at first."""

    newest: ssl.SSLContext
    alpn = ""


def server_context(
    files: Files,
    *,
    logs_refusals: bool = True,
    asks_clients: bool = True,
    certificate_is_optional: bool = False,
    alpn: str = "",
) -> ssl.SSLContext:
    """For listeners: every client must show a certificate of our authority, unless ``asks_clients`` is False.

    ``certificate_is_optional``: a client may show none, and then the caller must find out in another way who it is, or
    refuse it; one that is shown is checked all the same.  ``alpn``: the name of what may be agreed on (``speaks``).
    ``logs_refusals``: log the clients that are refused.
    """
    context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.logs_refusals = logs_refusals
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session is not checked against the authorities again: every connection shows its certificate.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if asks_clients:
        context.verify_mode = ssl.CERT_OPTIONAL if certificate_is_optional else ssl.CERT_REQUIRED
        files.load_into(context)
    else:
        files.load_own_into(context)
    if alpn:
        context.alpn = alpn
        context.set_alpn_protocols([alpn])
    context.newest = context
    context.sni_callback = _hand_over
    return context


def _hand_over(handshake: ssl.SSLSocket | ssl.SSLObject, _name: str | None, asked: ssl.SSLContext) -> None:
    """OpenSSL asks this for every handshake, also where the client names no server."""
    if isinstance(asked, _ServerContext) and asked.newest is not asked:
        handshake.context = asked.newest


def client_context(files: Files) -> ssl.SSLContext:
    """For connections: shows our certificate, checks the server's name against our authority only."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files.load_into(context)
    return context


class ClientTls:
    """A client's side over its whole life: ask for ``context()`` before each connection.

    It is the same until one of the files was replaced, and then a new one: what an authority signed that was taken out
    is refused from the next connection on.  A bad replacement is logged, and the context before it stays.
    """

    def __init__(self, files: Files) -> None:
        """Raises ``TlsFilesError``."""
        self.files = files
        self._context = client_context(files)

    def context(self) -> ssl.SSLContext:
        """For the next connection, and for no later one.  Reads the times of three files."""
        if self.files.changed():
            try:
                self._context = client_context(self.files)
            except TlsFilesError as error:
                _log.error("tls_reload_failed", reason=str(error))
            else:
                _log.info("tls_reloaded", cert=str(self.files.cert))
        return self._context

    async def keep_loaded(self, name: str | None = None, on_reload: Callable[[], None] = lambda: None) -> None:
        """Like the function of this name.  ``on_reload`` is called after files were replaced by valid ones."""
        while True:
            _remind(self.files, name)
            await asyncio.sleep(RELOAD_SECONDS)
            before = self._context
            if self.context() is not before:
                on_reload()


async def keep_loaded(context: ssl.SSLContext, files: Files, name: str | None = None) -> None:
    """Run beside a server: new handshakes use replaced files.  A bad replacement is logged, the old stays.

    What is wrong with our own certificate (its dates, or a name that is not ``name``), and that it ends soon, is said
    at once and then once a day.
    """
    while True:
        _remind(files, name)
        await asyncio.sleep(RELOAD_SECONDS)
        if files.changed():
            try:
                renew(context, files)
            except TlsFilesError as error:
                _log.error("tls_reload_failed", reason=str(error))
            else:
                _log.info("tls_reloaded", cert=str(files.cert))


def _remind(files: Files, name: str | None) -> None:
    own = files.certificate()
    now = datetime.datetime.now(datetime.UTC)
    if own is None or not (certificate.unfit(own, now, name) or certificate.ends_soon(own, now)):
        return
    if _reminded.due((own, bool(files.unfit(name, now))), time.monotonic()) is None:
        return
    if wrong := files.unfit(name, now):
        _log.error("certificate_unfit", reason=wrong, cert=str(files.cert))
    else:
        until = certificate.day(own.not_after)
        _log.warning("certificate_ends_soon", name=own.name, until=until, cert=str(files.cert), reason="replace it")


def renew(context: ssl.SSLContext, files: Files) -> None:
    """New handshakes of a ``server_context`` use the files as they are now.  Raises ``TlsFilesError``, and then nothing
    has changed."""
    assert isinstance(context, _ServerContext), "a client asks ClientTls for a context"
    context.newest = server_context(
        files,
        logs_refusals=context.logs_refusals,
        asks_clients=context.verify_mode is not ssl.CERT_NONE,
        certificate_is_optional=context.verify_mode is ssl.CERT_OPTIONAL,
        alpn=context.alpn,
    )


def newest(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context that the next handshake of a ``server_context`` uses."""
    return context.newest if isinstance(context, _ServerContext) else context


def speaks(side: ssl.SSLObject | ssl.SSLSocket | None) -> str:
    """The protocol agreed on in the handshake (ALPN); empty: none."""
    return (side.selected_alpn_protocol() or "") if side is not None else ""


def peer_times(certificate: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Start and end of a peer certificate's validity, in RFC 3339; None if it does not say."""
    try:
        found = [ssl.cert_time_to_seconds((certificate or {})[key]) for key in ("notBefore", "notAfter")]
        first, last = (datetime.datetime.fromtimestamp(each, datetime.UTC) for each in found)
    except (KeyError, ValueError, OverflowError):
        return None
    return first.strftime(RFC_3339), last.strftime(RFC_3339)


def peer_origin(certificate: Mapping[str, Any] | None) -> tuple[str, str]:
    """Serial number in lower-case hexadecimal, and the common name of the authority that signed; "" where none is."""
    found = certificate or {}
    serial = str(found.get("serialNumber", "")).lower().lstrip("0")
    names = (str(value) for relative in found.get("issuer", ()) for key, value in relative if key == "commonName")
    return serial, next(names, "")[:ISSUER_CHARS_MAX]


def peer_roles(certificate: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(role, name) of each SPIFFE URI, ``spiffe://<installation>/<role>/<name>``; one of another form is ("", "")."""
    found = []
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == "URI" and str(value).startswith(SPIFFE):
            _, _, path = str(value)[len(SPIFFE) :].partition("/")
            role, _, name = path.partition("/")
            found.append((role, name) if name else ("", ""))
    return found


def peer_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The name in a peer's certificate (``ssl_object.getpeercert()``); None when it carries none."""
    if not certificate:
        return None
    for relative in certificate.get("subject", ()):
        for key, value in relative:
            if key == "commonName":
                return str(value)
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            return str(value)
    return None
