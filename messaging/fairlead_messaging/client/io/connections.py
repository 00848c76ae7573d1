"""The connection pool of the synchronous clients: each request is answered within a deadline.

    exchange ─→ an idle connection that is still open, or a new one ─→ Response ─→ idle again

It uses only the standard library and no event loop, so that it works in the worker processes of a batch engine.
Threads may share a pool; each request has a connection to itself. After a fork the child opens its own connections and
neither uses nor closes those of the parent. The size of an answer and the time to read it are limited: a peer that
sends a byte now and then cannot hold up a caller beyond ``answer_seconds``.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from fairlead_messaging.client.errors import Disconnected, Failed, NoAnswer, TimedOut, Unreachable
from fairlead_messaging.client.request import Response
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError, RemoteError, text_of
from fairlead_wire.io import tls
from fairlead_wire.validation import addresses, mistakes

# --- The token of a ServiceAccount.

CHECK_SECONDS: Final = 5.0
TOKEN_BYTES_MAX: Final = 8192


ANSWER_BYTES_MAX = 256 * 1024 * 1024
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
IDLE_MAX = 16
"""Idle connections kept for reuse; the number of connections in use is not limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files for TLS: the certificate authority of the service (``ca``), and the identity of the client.

    That is ``cert`` and ``key``, or the token of a Kubernetes ServiceAccount (``token_file``), which is read again when
    it is replaced.
    """

    ca: str
    cert: str = ""
    key: str = ""
    token_file: str = ""

    def files(self) -> tls.Files:
        if self.cert or self.key or not self.token_file:
            return tls.Files(ca=Path(self.ca), cert=Path(self.cert), key=Path(self.key))
        return _AuthorityAlone(Path(self.ca))

    def token(self) -> TokenFile | None:
        """The client's token, if it has one. Raises ``LocalError``."""
        return TokenFile(self.token_file) if self.token_file else None

    def client(self) -> tls.ClientTls:
        """TLS contexts for connections. Raises ``LocalError`` naming the file that could not be read."""
        try:
            return tls.ClientTls(self.files())
        except tls.TlsFilesError as error:
            raise LocalError(f"cannot use {error}") from error


class _AuthorityAlone(tls.Files):
    """For clients identified by a token, which present no certificate."""

    def __init__(self, ca: Path) -> None:
        super().__init__(ca=ca, cert=ca, key=ca)

    def load_own_into(self, context: ssl.SSLContext) -> None:
        return

    def certificate(self) -> None:
        return None


def check_url(base_url: str, *, has_tls: bool) -> str:
    """The address without its last slash.  Raises ``LocalError`` for one that cannot work."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise LocalError(f"url must look like http://host:port, not {mistakes.shown(base_url)}")
    if "@" in parts.netloc:
        # Not every client would send it, and it would appear in every error that names the service.
        raise LocalError("url must carry no user or password: a certificate or a token identifies the client")
    if parts.scheme == "https" and not has_tls:
        raise LocalError("an https url needs tls=Tls(ca=…, cert=…, key=…), or token_file=… in place of cert and key")
    return base_url.rstrip("/")


def check_options(tls: object, retries: object) -> None:
    """Raises ``TypeError`` for an option of another type."""
    if not isinstance(tls, Tls | None):
        raise TypeError(f"tls must be Tls(ca=…, cert=…, key=…), is {type(tls).__name__}")
    if not isinstance(retries, DeliveryPolicy | None):
        raise TypeError(f"retries must be a policy such as PATIENT, is {type(retries).__name__}")


def _is_refused_certificate(error: BaseException) -> bool:
    """Whether the server rejected our certificate, which with TLS 1.3 it does only in place of the first answer."""
    reason = str(error.reason) if isinstance(error, ssl.SSLError) else ""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


class Connections:
    """Connections to the service at ``base_url`` (``http://host:port`` or ``https://…``)."""

    def __init__(
        self,
        base_url: str,
        *,
        tls: Tls | None,
        connect_seconds: float = CONNECT_SECONDS,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        self.base_url = check_url(base_url, has_tls=tls is not None)
        parts = urlsplit(self.base_url)
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path
        self._connect_seconds = connect_seconds
        self._answer_bytes_max = answer_bytes_max
        self._tls = tls.client() if tls is not None and parts.scheme == "https" else None
        self._token = tls.token() if tls is not None and self._tls is not None else None
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._answered = False
        self._process = os.getpid()

    def close(self) -> None:
        """Close the idle connections.  A later exchange opens new ones."""
        self._check_fork()
        while self._idle:
            self._idle.pop().close()

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, answer_seconds: float
    ) -> Response:
        """Send one request and read its answer.

        Raises ``Unreachable``, ``TimedOut``, ``Disconnected`` or ``NoAnswer``; ``RemoteError`` for too large an answer.
        """
        connection = self._ready()
        deadline = time.monotonic() + answer_seconds
        try:
            shown = self._token.header() if self._token is not None else {}
            _ask(connection, method, self._prefix + path, body, {**headers, **shown}, deadline)
            response = connection.getresponse()
            self._answered = True
            answer = self._read(path, response)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._failure(error, f"{method} {path}", answer_seconds) from error
        except BaseException:
            connection.close()  # interrupted between request and answer: the next caller must not get this answer
            raise
        if not response.will_close and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def download(self, path: str, headers: Mapping[str, str], *, piece_seconds: float) -> Download:
        """An answer of any length, on a separate connection; ``piece_seconds`` limits the wait for each piece.

        Raises: as ``exchange``.
        """
        connection = self._made()
        connection.timeout = piece_seconds
        connection.response_class = http.client.HTTPResponse
        try:
            connection.connect()
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise Unreachable(f"{self.base_url} cannot be reached: {self._why(error)}") from error
        shown = self._token.header() if self._token is not None else {}
        try:
            connection.request("GET", self._prefix + path, headers={**headers, **shown})
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._failure(error, f"GET {path}", piece_seconds) from error
        return Download(connection, response, lambda error: self._failure(error, f"GET {path}", piece_seconds))

    def _failure(self, error: Exception, asked: str, seconds: float) -> Failed:
        """The error of ``errors`` that stands for this exception."""
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self.base_url} did not answer {asked} within {seconds:g} s", seconds=seconds)
        if isinstance(error, ConnectionError | http.client.IncompleteRead | ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return Disconnected(f"{self.base_url} ended the connection before its answer: {self._why(error)}")
        if _is_refused_certificate(error):
            return Unreachable(f"{self.base_url} does not accept our certificate: {_why(error)}")
        return NoAnswer(f"{self.base_url} does not answer: {self._why(error)}")

    def _why(self, error: BaseException) -> str:
        return f"{_why(error)}{addresses.scheme_hint(self.base_url, error, answered=self._answered)}"

    def _read(self, path: str, response: http.client.HTTPResponse) -> Response:
        limit = self._answer_bytes_max
        # read() notices an answer shorter than its Content-Length; read(n) would not. Chunks are counted as they come.
        too_much = response.length is not None and response.length > limit
        body = b"" if too_much else response.read() if response.length is not None else response.read(limit + 1)
        if too_much or len(body) > limit:
            raise RemoteError(f"{path}: the answer is over {limit} bytes")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(status=response.status, headers=headers, body=body, url=self.base_url)

    def _ready(self) -> http.client.HTTPConnection:
        """An idle connection that the peer has not closed, or a new one.  Raises ``Unreachable``."""
        self._check_fork()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if _is_open(connection):
                return connection
            connection.close()
        connection = self._made()
        try:
            connection.connect()
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise Unreachable(f"{self.base_url} cannot be reached: {self._why(error)}") from error
        return connection

    def _made(self) -> http.client.HTTPConnection:
        if self._tls is None:
            made = http.client.HTTPConnection(self._host, self._port, timeout=self._connect_seconds)
        else:
            context = self._tls.context()
            made = http.client.HTTPSConnection(self._host, self._port, timeout=self._connect_seconds, context=context)
        made.response_class = _Response
        return made

    def _check_fork(self) -> None:
        if self._process != os.getpid():
            # Two processes on one connection would read each other's answers. The sockets are detached, not closed:
            # closing would end the TLS session of the parent.
            for connection in self._idle:
                if connection.sock is not None:
                    os.close(connection.sock.detach())
            self._idle = deque()
            self._process = os.getpid()


class Download:
    """An answer that is read in pieces, without a limit on its size or the total time."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        failure: Callable[[Exception], Failed],
    ) -> None:
        self._connection, self._response, self._failure = connection, response, failure
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    def read(self, size: int = -1, /) -> bytes:
        """Exactly ``size`` bytes, fewer only at the end.  Raises: as ``Connections.exchange``."""
        try:
            return self._response.read(None if size < 0 else size)
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection, even if the answer has not been read to its end."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Response(http.client.HTTPResponse):
    """Applies one deadline to the whole answer, instead of a new timeout to every read."""

    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_Timed(raw, sock), io.DEFAULT_BUFFER_SIZE)


class _Timed(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock
        self._deadline = time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        read: int | None = self._raw.readinto(into)
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    deadline: float,
) -> None:
    """Send the request; the answer may take what is left of the time."""
    connection.sock.settimeout(max(0.001, deadline - time.monotonic()))
    connection.request(method, path, body=body, headers=dict(headers))
    connection.sock.settimeout(max(0.001, deadline - time.monotonic()))


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Whether an idle connection is still open: the peer has neither closed it nor sent anything unasked."""
    if connection.sock is None:
        return False
    asking = select.poll()
    try:
        asking.register(connection.sock, select.POLLIN)
        return not asking.poll(0)
    except (OSError, ValueError):
        return False


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return "connection refused"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut short"
    return text_of(error)


class TokenFile:
    """A token in a file that is replaced from time to time; thread-safe."""

    def __init__(self, path: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        """Raises ``LocalError`` if the file holds no token."""
        self._path = Path(path)
        self._steady = steady
        self._token, self._read_at = self._read(), steady()

    def header(self) -> dict[str, str]:
        """The header for a request.  While the file cannot be read, the previous token is used."""
        now = self._steady()
        if now - self._read_at >= CHECK_SECONDS:
            self._read_at = now
            # The file is just being replaced; if not, the service will refuse the old token once it has expired.
            with contextlib.suppress(LocalError):
                self._token = self._read()
        return {"Authorization": f"Bearer {self._token}"}

    def _read(self) -> str:
        try:
            with self._path.open("rb") as file:
                token = file.read(TOKEN_BYTES_MAX + 1).strip()
        except OSError as error:
            raise LocalError(f"token_file {self._path}: {error.strerror or error}") from None
        if not token or len(token) > TOKEN_BYTES_MAX or not token.isascii() or len(token.split()) != 1:
            raise LocalError(f"token_file {self._path}: is no token: one word of at most {TOKEN_BYTES_MAX} characters")
        return token.decode()
