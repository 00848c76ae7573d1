"""Reasons for failed TLS handshakes: whose certificate it was, which check failed, and its dates.

OpenSSL only says that a check failed, and an event loop drops even that when the other side made the check.  Errors of
the contexts defined here name the certificate in their text and carry a ``HandshakeFailure``.  A server logs each
certificate and check (``certificate_refused``), at first and then at intervals.  ``alert`` holds the TLS alert that the
other side has not received yet: the owner of the socket sends it with ``send_alert``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any, Final

import msgspec

from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

LOG_SECONDS: Final = 300.0
"""Interval between log lines about the same certificate and check."""
AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Not failures: the handshake is waiting for the other side."""
ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "CERTIFICATE_UNKNOWN": "it gave no reason",
    "UNSUPPORTED_CERTIFICATE": "it is not meant for this use",
    "BAD_CERTIFICATE": "it is damaged, or not valid for the requested name",
    "UNKNOWN_CA": "the other side does not trust its authority",
    "CERTIFICATE_REQUIRED": "none was shown",
}
"""What the other side's alert says about our certificate (RFC 8446, section 6.2)."""
_ASN1: Final = 2
"""OpenSSL's X509_FILETYPE_ASN1."""
NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python does not name.  Names and authorities are still checked."""

_log = logs.get("wire.tls")
_limiter = LogLimiter(LOG_SECONDS)


class HandshakeFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a handshake failed.  ``ours``: the other side refused our certificate; ``whose``: the refused one."""

    ours: bool
    whose: Certificate | None
    check: str
    alert: bytes = b""

    @property
    def event(self) -> str:
        return "our_certificate_refused" if self.ours else "certificate_refused"

    def __str__(self) -> str:
        if self.ours:
            return f"the other side refused our certificate: {self.check}; ours is {self.whose or 'unreadable'}"
        return f"{self.whose or 'the certificate of the other side'} was refused here: {self.check}"

    def log(self, **fields: Any) -> None:
        """Log it, at most every ``LOG_SECONDS``; ``times`` counts the occurrences since the last line."""
        times = _limiter.due((self.ours, self.whose, self.check), time.monotonic())
        if times is not None:
            name = self.whose.name if self.whose else ""
            _log.warning(self.event, name=name, check=self.check, reason=str(self), times=times, **fields)


def refusal(error: BaseException | None) -> HandshakeFailure | None:
    """The failure that an error carries; None if the handshake did not fail because of a certificate."""
    found: HandshakeFailure | None = getattr(error, "refusal", None)
    return found


def _explain(side: ssl.SSLObject | ssl.SSLSocket, error: ssl.SSLError) -> HandshakeFailure | None:
    """Add the missing details to the error's text."""
    found = _reason(side, error)
    if found is not None:
        error.strerror = str(found)
        outgoing = getattr(side, "outgoing", None)
        # Event loops drop the pending output of a failed handshake, so the other side would never learn the reason.
        alert = outgoing.read() if outgoing is not None else b""
        error.refusal = msgspec.structs.replace(found, alert=alert)  # type: ignore[attr-defined]
    return found


def _reason(side: ssl.SSLObject | ssl.SSLSocket, error: ssl.SSLError) -> HandshakeFailure | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeFailure(ours=False, whose=_shown(side), check=error.verify_message)
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return HandshakeFailure(ours=False, whose=None, check="none was shown")
    said = ALERTS.get((error.reason or "").partition("_ALERT_")[2])
    if said is None:
        return None
    own = side.context.own if isinstance(side.context, HandshakeContext) else None
    return HandshakeFailure(ours=True, whose=own, check=said)


class _Side(ssl.SSLObject):
    """One end of a connection in an event loop."""

    outgoing: ssl.MemoryBIO | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except AGAIN:
            raise
        except ssl.SSLError as error:
            found = _explain(self, error)
            if found is not None and isinstance(self.context, ServerContext) and self.context.logs_refusals:
                found.log()
            raise
        _require_not_ended(self)


class _ClientSide(_Side):
    def read(self, *wanted: Any) -> Any:
        """A TLS 1.3 server checks our certificate after the handshake is complete for us, so its alert arrives here."""
        try:
            return super().read(*wanted)
        except AGAIN:
            raise
        except ssl.SSLError as error:
            _explain(self, error)
            raise


class _ClientSocket(ssl.SSLSocket):
    """The same for a blocking socket."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except AGAIN:
            raise
        except ssl.SSLError as error:
            _explain(self, error)
            raise
        _require_not_ended(self)

    def read(self, *wanted: Any) -> Any:
        try:
            return super().read(*wanted)
        except AGAIN:
            raise
        except ssl.SSLError as error:
            _explain(self, error)
            raise


def _require_not_ended(side: ssl.SSLObject | ssl.SSLSocket) -> None:
    """Without a trusted clock, refuse a certificate that expired before the earliest possible time.

    Raises ``ssl.SSLCertVerificationError`` with a ``HandshakeFailure``, before any of our output is sent.
    """
    earliest = side.context.earliest if isinstance(side.context, HandshakeContext) else None
    if earliest is None:
        return
    for each in _chain(side):
        if each.not_after.timestamp() < earliest:
            outgoing = getattr(side, "outgoing", None)
            if outgoing is not None:
                outgoing.read()
            found = HandshakeFailure(ours=False, whose=each, check="certificate has expired")
            error = ssl.SSLCertVerificationError(1, str(found))
            error.refusal = found  # type: ignore[attr-defined]
            raise error


def _chain(side: ssl.SSLObject | ssl.SSLSocket) -> list[Certificate]:
    """The other side's certificate chain up to its authority; there is no public API for it before Python 3.13."""
    try:
        return [certificate.read(each.public_bytes(_ASN1)) for each in side._sslobj.get_verified_chain()]  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        shown = side.getpeercert(binary_form=True)
        return [certificate.read(shown)] if shown else []


def spare(connection: socket.socket) -> socket.socket | None:
    """A duplicate of the socket for ``send_alert``, closed by the caller; None when out of file descriptors."""
    try:
        return connection.dup()
    except OSError:
        return None


def send_alert(connection: socket.socket | None, refused: HandshakeFailure | None) -> None:
    """Send the alert over the ``spare`` socket, because the loop has closed the original.  Never raises."""
    if connection is not None and refused is not None and refused.alert:
        with contextlib.suppress(OSError):
            connection.send(refused.alert)
            connection.shutdown(socket.SHUT_WR)


class HandshakeContext(ssl.SSLContext):
    """``own`` is the certificate that it shows; for ``earliest`` see ``distrust_clock``."""

    own: Certificate | None = None
    earliest: float | None = None
    sslobject_class = _Side

    def distrust_clock(self, earliest: float | None) -> None:
        """From the next handshake on, compare the dates of certificates with ``earliest`` (Unix time) only.

        None: compare them with this machine's clock, which is the default.
        """
        self.earliest = earliest
        if earliest is None:
            self.verify_flags &= ~NO_CHECK_TIME
        else:
            self.verify_flags |= NO_CHECK_TIME

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **options)
        if isinstance(made, _Side):
            made.outgoing = outgoing
        return made


class ServerContext(HandshakeContext):
    """``logs_refusals``: refused clients are logged here; otherwise the caller logs them."""

    logs_refusals = True


class ClientContext(HandshakeContext):
    sslobject_class = _ClientSide
    sslsocket_class = _ClientSocket


def _shown(side: ssl.SSLObject | ssl.SSLSocket) -> Certificate | None:
    """The certificate that was refused.  OpenSSL keeps it; there is no public API for it before Python 3.13."""
    try:
        [first, *_] = side._sslobj.get_verified_chain()  # type: ignore[union-attr]
        return certificate.read(first.public_bytes(_ASN1))
    except (AttributeError, TypeError, ValueError):
        return None
