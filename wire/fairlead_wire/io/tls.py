"""Mutual TLS: both sides show a certificate of the same authority; files are read again when they change.

A peer's identity is the name in its certificate: the common name of the subject or, if there is none, the first DNS
name of the subject alternative names.

Authorities can be added to a context but not removed.  When files change, both sides therefore make a new context
(``ClientTls``, ``renew``), so that a removed authority is not trusted from the next handshake on.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead_wire import errors
from fairlead_wire.errors import FairleadError
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate
from fairlead_wire.io import logs
from fairlead_wire.io.handshake import ClientContext, HandshakeContext, ServerContext
from fairlead_wire.log_limiter import LogLimiter

RELOAD_SECONDS = 5.0
REMINDER_SECONDS = 86_400.0
READABLE_BY_ALL = 0o004
ISSUER_CHARS_MAX = 253
SPIFFE = "spiffe://"
NODE_ROLE = "node"
"""The role in a node's URI, ``spiffe://<installation>/node/<name>``."""
RFC_3339 = "%Y-%m-%dT%H:%M:%SZ"
_log = logs.get("wire.tls")
_reminders = LogLimiter(REMINDER_SECONDS)


class TlsFilesError(FairleadError):
    """A certificate, key or CA file cannot be used; the text names the file."""


class Files:
    """The three files of one side, and their stamps when they were last read."""

    def __init__(self, *, ca: Path, cert: Path, key: Path, ca_setting: str = "tls_ca") -> None:
        """``ca_setting`` is the name of the setting for ``ca``, used in errors."""
        self.ca, self.cert, self.key = ca, cert, key
        self._ca_setting = ca_setting
        self._seen = self._stamps()

    def changed(self) -> bool:
        """True if a file was replaced since the last call."""
        now = self._stamps()
        if now == self._seen:
            return False
        self._seen = now
        return True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load all three files.  Raises ``TlsFilesError``, which names the bad file."""
        try:
            context.load_verify_locations(cafile=str(self.ca))
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(f"{self._ca_setting} {self.ca}: {errors.plain(error)}") from None
        self.load_own_into(context)

    def load_own_into(self, context: ssl.SSLContext) -> None:
        """Load certificate and key, for a side that does not verify the other.  Raises ``TlsFilesError``."""
        try:
            context.load_cert_chain(str(self.cert), str(self.key))
            _warn_readable(self.key)
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(_own_unusable(self.cert, self.key, error)) from None
        if isinstance(context, HandshakeContext):
            context.own = self.certificate()

    def certificate(self) -> Certificate | None:
        """Our own certificate; None when it cannot be read."""
        try:
            return certificate.read(self.cert.read_bytes())
        except (OSError, ValueError):
            return None

    def ends(self) -> float:
        """When our own certificate expires, as a Unix time; 0 if it cannot be read."""
        own = self.certificate()
        return own.not_after.timestamp() if own else 0.0

    def unfit(self, name: str | None = None, now: datetime.datetime | None = None) -> str:
        """Why the other side will probably refuse our certificate; "": no reason."""
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


_warned_keys: dict[Path, tuple[int, int]] = {}
"""Keys that all users can read and that were logged, by their state then: several listeners use one key."""


def _warn_readable(key: Path) -> None:
    found = key.stat()
    state = (found.st_mtime_ns, found.st_mode)
    if found.st_mode & READABLE_BY_ALL and _warned_keys.get(key) != state:
        _warned_keys[key] = state
        reason, remedy = "every user of this machine may read it", f"chmod 600 {key}"
        _log.warning("tls_key_readable", file=str(key), reason=reason, remedy=remedy)


def _own_unusable(cert: Path, key: Path, error: OSError) -> str:
    """OpenSSL names neither the file that it cannot open nor the one that it cannot read."""
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"tls_key {key} does not belong to tls_cert {cert}: give the key that was made for this certificate"
    for name, file in (("tls_cert", cert), ("tls_key", key)):
        try:
            file.open("rb").close()
        except OSError as unreadable:
            return f"{name} {file}: {unreadable.strerror or unreadable}"
    said = errors.plain(error)
    why = "one of them is not in PEM form" if said == "PEM lib" else said
    return f"tls_cert {cert} with tls_key {key}: {why}"


class _ServerContext(ServerContext):
    """Every handshake uses the context ``newest``, which is initially this one."""

    newest: ssl.SSLContext
    alpn = ""


def server_context(
    files: Files,
    *,
    logs_refusals: bool = True,
    verifies_clients: bool = True,
    certificate_is_optional: bool = False,
    alpn: str = "",
) -> ssl.SSLContext:
    """For listeners: every client must show a certificate of our authority, unless ``verifies_clients`` is False.

    ``certificate_is_optional``: a client may show none, and then the caller must authenticate it in another way or
    refuse it; a certificate that is shown is still verified.  ``alpn``: the protocol offered in ALPN
    (see ``negotiated_protocol``).  ``logs_refusals``: log refused clients.
    """
    context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.logs_refusals = logs_refusals
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would not be verified against the authorities again, so there is no resumption.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if verifies_clients:
        context.verify_mode = ssl.CERT_OPTIONAL if certificate_is_optional else ssl.CERT_REQUIRED
        files.load_into(context)
    else:
        files.load_own_into(context)
    if alpn:
        context.alpn = alpn
        context.set_alpn_protocols([alpn])
    context.newest = context
    context.sni_callback = _use_newest
    return context


def _use_newest(handshake: ssl.SSLSocket | ssl.SSLObject, _name: str | None, asked: ssl.SSLContext) -> None:
    """OpenSSL calls this in every handshake, even if the client sends no server name."""
    if isinstance(asked, _ServerContext) and asked.newest is not asked:
        handshake.context = asked.newest


def client_context(files: Files) -> ssl.SSLContext:
    """For connections: shows our certificate, and verifies the server's name and its chain to our authority only."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files.load_into(context)
    return context


class ClientTls:
    """The client's TLS context, kept current: call ``context()`` before each connection.

    A new context is made when a file was replaced, so that certificates of a removed authority are refused from the
    next connection on.  If the replacement is bad, that is logged and the previous context stays in use.
    """

    def __init__(self, files: Files) -> None:
        """Raises ``TlsFilesError``."""
        self.files = files
        self._context = client_context(files)

    def context(self) -> ssl.SSLContext:
        """The context for the next connection only.  Stats three files."""
        if self.files.changed():
            try:
                self._context = client_context(self.files)
            except TlsFilesError as error:
                _log.error("tls_reload_failed", reason=str(error))
            else:
                _log.info("tls_reloaded", cert=str(self.files.cert))
        return self._context

    async def keep_loaded(self, name: str | None = None, on_reload: Callable[[], None] = lambda: None) -> None:
        """Like the function ``keep_loaded``; calls ``on_reload`` after valid replacements were loaded."""
        while True:
            _remind(self.files, name)
            await asyncio.sleep(RELOAD_SECONDS)
            before = self._context
            if self.context() is not before:
                on_reload()


async def keep_loaded(context: ssl.SSLContext, files: Files, name: str | None = None) -> None:
    """Run beside a server, so that new handshakes use replaced files; a bad replacement is logged and not used.

    If our own certificate is outside its dates, not for ``name``, or about to expire, that is logged at once and then
    daily.
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
    if _reminders.due((own, bool(files.unfit(name, now))), time.monotonic()) is None:
        return
    if wrong := files.unfit(name, now):
        _log.error("certificate_unfit", reason=wrong, cert=str(files.cert))
    else:
        until = certificate.day(own.not_after)
        _log.warning("certificate_ends_soon", name=own.name, until=until, cert=str(files.cert), reason="replace it")


def renew(context: ssl.SSLContext, files: Files) -> None:
    """Make new handshakes of a ``server_context`` use the current files.  Raises ``TlsFilesError``."""
    assert isinstance(context, _ServerContext), "clients use ClientTls"
    context.newest = server_context(
        files,
        logs_refusals=context.logs_refusals,
        verifies_clients=context.verify_mode is not ssl.CERT_NONE,
        certificate_is_optional=context.verify_mode is ssl.CERT_OPTIONAL,
        alpn=context.alpn,
    )


def newest(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context that the next handshake of a ``server_context`` uses."""
    return context.newest if isinstance(context, _ServerContext) else context


def negotiated_protocol(side: ssl.SSLObject | ssl.SSLSocket | None) -> str:
    """The protocol negotiated with ALPN; empty: none."""
    return (side.selected_alpn_protocol() or "") if side is not None else ""


def peer_times(certificate: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Start and end of a peer certificate's validity, in RFC 3339; None if it has none."""
    try:
        found = [ssl.cert_time_to_seconds((certificate or {})[key]) for key in ("notBefore", "notAfter")]
        first, last = (datetime.datetime.fromtimestamp(each, datetime.UTC) for each in found)
    except (KeyError, ValueError, OverflowError):
        return None
    return first.strftime(RFC_3339), last.strftime(RFC_3339)


def peer_origin(certificate: Mapping[str, Any] | None) -> tuple[str, str]:
    """The serial number in lower-case hexadecimal, and the issuer's common name; each "" if absent."""
    found = certificate or {}
    serial = str(found.get("serialNumber", "")).lower().lstrip("0")
    names = (str(value) for relative in found.get("issuer", ()) for key, value in relative if key == "commonName")
    return serial, next(names, "")[:ISSUER_CHARS_MAX]


def peer_roles(certificate: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(role, name) of each SPIFFE URI, ``spiffe://<installation>/<role>/<name>``; ("", "") for one of another form."""
    found = []
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == "URI" and str(value).startswith(SPIFFE):
            _, _, path = str(value)[len(SPIFFE) :].partition("/")
            role, _, name = path.partition("/")
            found.append((role, name) if name else ("", ""))
    return found


def peer_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The name in a peer's certificate (``ssl_object.getpeercert()``); None if it has none."""
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
