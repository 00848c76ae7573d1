"""Reasons for failed TLS handshakes: whose certificate, which check, until when.

OpenSSL says only that a check failed, and an event loop drops even that when it was the other side's.  The errors of
these contexts name the certificate in their text and carry a ``HandshakeFailure``; a server logs it
(``certificate_refused``), for each certificate and check at first and then once in a while.  What the other side should
still receive is ``alert``: the owner of the socket sends it (``send_alert``).
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
"""Between two log lines about one certificate and what is wrong with it."""
AGAIN: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Not failures: the handshake waits for the other side."""
ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "CERTIFICATE_UNKNOWN": "it did not say why",
    "UNSUPPORTED_CERTIFICATE": "it is not made for this",
    "BAD_CERTIFICATE": "it is damaged, or is not for the name that was asked for",
    "UNKNOWN_CA": "its authority is not one the other side knows",
    "CERTIFICATE_REQUIRED": "none was shown",
}
"""What the other side's alert says about our certificate (RFC 8446, section 6.2)."""
_ASN1: Final = 2
"""OpenSSL's X509_FILETYPE_ASN1."""
NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME; Python has no name for it.  Names and authorities are checked all the same."""

_log = logs.get("wire.tls")
_limiter = LogLimiter(LOG_SECONDS)


class HandshakeFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a handshake failed.  ``ours``: the other side refused what we showed; ``whose``: the refused certificate."""

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
        """Log it, unless it was a moment ago; ``times`` says how often it happened since."""
        times = _limiter.due((self.ours, self.whose, self.check), time.monotonic())
        if times is not None:
            name = self.whose.name if self.whose else ""
            _log.warning(self.event, name=name, check=self.check, reason=str(self), times=times, **fields)


def refusal(error: BaseException | None) -> HandshakeFailure | None:
    """Why a handshake failed because of a certificate; None: it failed for another reason."""
    found: HandshakeFailure | None = getattr(error, "refusal", None)
    return found


def _explain(side: ssl.SSLObject | ssl.SSLSocket, error: ssl.SSLError) -> HandshakeFailure | None:
    """Add the missing details to the error's text."""
    found = _reason(side, error)
    if found is not None:
        error.strerror = str(found)
        outgoing = getattr(side, "outgoing", None)
        # The event loops drop what a failed handshake still has to say, and the other side would never learn why.
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
    """One end of a connection of an event loop."""

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
        """In TLS 1.3 a server looks at our certificate when the handshake is over for us: its alert arrives here."""
        try:
            return super().read(*wanted)
        except AGAIN:
            raise
        except ssl.SSLError as error:
            _explain(self, error)
            raise


class _ClientSocket(ssl.SSLSocket):
    """The same for programs without an event loop."""

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
    """Without a trusted clock, refuse a certificate that ended before the earliest possible time.

    Raises ``ssl.SSLCertVerificationError`` with its ``HandshakeFailure``; nothing that we say has left then.
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
    """What the other side showed, as far as its authority; before 3.13 Python has no public name for it."""
    try:
        return [certificate.read(each.public_bytes(_ASN1)) for each in side._sslobj.get_verified_chain()]  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        shown = side.getpeercert(binary_form=True)
        return [certificate.read(shown)] if shown else []


def spare(connection: socket.socket) -> socket.socket | None:
    """A duplicate for the alert, to be closed by the caller; None when no file descriptor is left for it."""
    try:
        return connection.dup()
    except OSError:
        return None


def send_alert(connection: socket.socket | None, refused: HandshakeFailure | None) -> None:
    """Send the other side the reason, over the ``spare`` socket; the loop has closed its own.  Never raises."""
    if connection is not None and refused is not None and refused.alert:
        with contextlib.suppress(OSError):
            connection.send(refused.alert)
            connection.shutdown(socket.SHUT_WR)


class HandshakeContext(ssl.SSLContext):
    """``own`` is the certificate it shows; ``earliest``: see ``distrust_clock``."""

    own: Certificate | None = None
    earliest: float | None = None
    sslobject_class = _Side

    def distrust_clock(self, earliest: float | None) -> None:
        """From the next handshake on: times in certificates are held against ``earliest`` (a Unix time) alone.

        None: against the clock of this machine, as at first.
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
    """``logs_refusals``: it logs which client it refuses; else the caller does."""

    logs_refusals = True


class ClientContext(HandshakeContext):
    sslobject_class = _ClientSide
    sslsocket_class = _ClientSocket


def _shown(side: ssl.SSLObject | ssl.SSLSocket) -> Certificate | None:
    """The certificate that was refused.  OpenSSL keeps it; before 3.13 Python has no public name for it."""
    try:
        [first, *_] = side._sslobj.get_verified_chain()  # type: ignore[union-attr]
        return certificate.read(first.public_bytes(_ASN1))
    except (AttributeError, TypeError, ValueError):
        return None
