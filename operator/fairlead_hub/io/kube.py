"""A lean client of the API server: one aiohttp session, raw bytes in and out, bounded retries.

Configuration (kubeconfig, in-cluster, tokens, exec plugins) is the ``kubernetes`` package's business; requests are
ours, because a typed client costs six times as much CPU for each status write and thirty times for each event.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from fairlead_hub.cluster import api_json
from fairlead_hub.cluster.watch_backoff import RETRY_AFTER_SECONDS_MAX
from fairlead_wire.errors import FairleadError, Malformed, Permanent, Temporary
from fairlead_wire.io import logs
from fairlead_wire.peer_json import Decoded

REQUEST_SECONDS = 30.0
ATTEMPTS = 5
BACKOFF_SECONDS = 0.2
BUSY = frozenset({429, 500, 502, 503, 504})
UNAUTHORIZED = 401
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longest watch line taken; an object is at most 1.5 MiB in etcd, JSON may double it."""
ERROR_CHARS_MAX = 500

CREDENTIALS_SECONDS = 5.0
"""How long credentials are used before they are asked for again: that costs as much as the whole request."""
RENEW_SECONDS = 1.0
"""Rejected credentials are read again at most so often."""

MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "fairlead-hub"
"""Also the name under which the API server keeps who wrote which field (managedFields)."""
_log = logs.get("hub.kube")


class ConfigError(FairleadError):
    """No usable way to the API server was configured; the text says which file or variable."""


class Refused(Permanent):
    """The API server said no: ``status`` is the HTTP status, the text its message."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message, code=reason or f"http_{status}")
        self.status = status


class Unavailable(Temporary):
    """The API server is away or busy, or does not accept our credentials (any more): tokens are renewed on disk."""


class Unreadable(Unavailable):
    """A good answer whose body is not what was asked for: a load balancer's page, nothing, half a document."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


class Access:
    """Where the API server is and how to show who we are."""

    def __init__(
        self,
        server: str,
        headers: Callable[[], Mapping[str, str]],
        *,
        namespace: str = "default",
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        verify: bool = True,
        renew: Callable[[], None] = lambda: None,
        source: str | None = None,
    ) -> None:
        """``renew`` reads the credentials again from where they came; it may take its time and must not raise.

        ``source`` is the file they came from, if any.
        """
        self.server = server.rstrip("/")
        self.headers = headers
        self.renew = renew
        self.namespace = namespace
        self.ca, self.cert, self.key, self.verify = ca, cert, key, verify
        self.source = source

    def stamps(self) -> tuple[object, ...]:
        """What its files look like; differs when one was replaced, or another is named."""
        found: list[object] = []
        for path in (self.source, self.ca, self.cert, self.key):
            try:
                status = os.stat(path) if path else None
            except OSError:
                status = None
            found += (path, status and (status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def tls(self) -> ssl.SSLContext | None:
        if not self.server.startswith("https://"):
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


def access(kubeconfig: str | None, context: str | None = None) -> Access:
    """From a kubeconfig file, or in-cluster when there is none; ``context`` is one of the file's, else its current one.

    Raises ``ConfigError``.
    """
    settings = _configuration(kubeconfig, context)
    if not _is_server(settings.host):
        shown = str(settings.host)[:ERROR_CHARS_MAX]
        raise ConfigError(f"{_where(kubeconfig)}: server must be https://host:port, is {shown!r}")
    namespace = "default" if kubeconfig is not None else _in_cluster_namespace() or "default"

    def renew() -> None:
        # The package itself reads a kubeconfig's ``tokenFile`` once and never again.
        nonlocal settings
        try:
            settings = _configuration(kubeconfig, context)
        except ConfigError as error:
            _log.warning("credentials_unreadable", reason=str(error))
            return
        # A certificate inside of a kubeconfig is another file each time.
        made.ca, made.cert, made.key = settings.ssl_ca_cert, settings.cert_file, settings.key_file
        made.verify = settings.verify_ssl

    def headers() -> Mapping[str, str]:
        # Asked every few seconds, because in-cluster tokens are renewed on disk and exec plugins renew theirs.
        token = settings.get_api_key_with_prefix("BearerToken") or settings.get_api_key_with_prefix("authorization")
        if token:
            return {"Authorization": token}
        basic = settings.get_basic_auth_token() if settings.username else None
        return {"Authorization": basic} if basic else {}

    made = Access(
        settings.host,
        headers,
        namespace=namespace,
        ca=settings.ssl_ca_cert,
        cert=settings.cert_file,
        key=settings.key_file,
        verify=settings.verify_ssl,
        renew=renew,
        source=kubeconfig,
    )
    try:
        made.tls()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"{_where(kubeconfig)}: its certificates cannot be used: {error}") from None
    return made


def _is_server(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _where(kubeconfig: str | None) -> str:
    return f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster configuration"


def _configuration(kubeconfig: str | None, context: str | None) -> Any:
    from kubernetes import client, config
    from yaml import YAMLError

    settings = client.Configuration()
    try:
        if kubeconfig is not None:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, context=context, client_configuration=settings
            )
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        raise ConfigError(f"{_where(kubeconfig)}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{_where(kubeconfig)}: nested too deeply") from None
    return settings


def _in_cluster_namespace() -> str:
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


class Kube:
    """``request`` for single answers, ``lines`` for a watch.  Close it at the end."""

    def __init__(self, access: Access) -> None:
        self.access = access
        # No limit of its own: each watch keeps a connection, and a hundred kinds must not starve the Lease.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        self._stamps = access.stamps()
        self._tls: ssl.SSLContext | bool = access.tls() or True
        """Given with each request: connections made with an older one are used no more, watches end in their time."""
        self._looked_until = float("-inf")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        # Asked once: aiohttp's trust_env reads the environment in a thread for every request, a fifth of its cost.
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=_proxy(access.server))
        self.requests: dict[str, int] = {}
        """By method, for metrics."""
        self.date = ("", 0.0)
        """The ``Date`` of the last answer, and our own time then."""
        self._rejected = False
        """The last answer was 401."""
        self._renewed_at = float("-inf")
        self._headers: Mapping[str, str] = {}
        self._headers_until = float("-inf")

    async def close(self) -> None:
        await self._session.close()

    async def get(self, path: str, **params: str) -> bytes:
        return await self.request("GET", path, params=params)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        attempts: int = ATTEMPTS,
        seconds: float | None = None,
    ) -> bytes:
        """Raises ``Refused`` on an answer that repeating will not change, ``Unavailable`` after the last attempt.

        ``seconds``: all attempts together take no longer; 0 and less: nothing is sent.
        """
        data = None if body is None else msgspec.json.encode(body)
        if seconds is None:
            return await self._attempts(method, path, data, content_type, params, attempts)
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    return await self._attempts(method, path, data, content_type, params, attempts)
        raise Unavailable(f"no answer from the API server within the {max(0.0, seconds):.1f} s there were")

    async def _attempts(
        self,
        method: str,
        path: str,
        data: bytes | None,
        content_type: str,
        params: Mapping[str, str] | None,
        attempts: int,
    ) -> bytes:
        for attempt in range(attempts):
            try:
                return await self._once(method, path, data, content_type, params)
            except Unavailable as error:
                if attempt + 1 == attempts:
                    raise
                wait = error.retry_after_seconds
                await asyncio.sleep(
                    min(BACKOFF_SECONDS * 2**attempt if wait is None else wait, RETRY_AFTER_SECONDS_MAX)
                )
        raise AssertionError("attempts must be at least 1")

    async def _once(
        self, method: str, path: str, data: bytes | None, content_type: str, params: Mapping[str, str] | None
    ) -> bytes:
        self.requests[method] = self.requests.get(method, 0) + 1
        await self._follow_files()
        headers = self._who_we_are()
        if data is not None:
            headers = {**headers, "Content-Type": content_type}
        url = f"{self.access.server}/{path}"
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                self._session.request(method, url, data=data, headers=headers, params=params, ssl=self._tls) as answer,
            ):
                self.date = answer.headers.get("Date", ""), time.time()
                content = await answer.read()
                if answer.status >= 400:
                    raise await self._failure(answer.status, answer.headers, content)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"API server: {_text(error)}") from None
        if self._rejected:
            self._rejected = False
            _log.info("credentials_accepted")
        return content

    async def lines(
        self, path: str, params: Mapping[str, str], silence_seconds: float, *, opened: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, until the server ends it.  Raises ``Unavailable`` when it breaks or says nothing.

        ``opened`` is called when the server has agreed to watch.  A line that was cut is not given out.
        """
        self.requests["WATCH"] = self.requests.get("WATCH", 0) + 1
        await self._follow_files()
        headers = self._who_we_are()
        url = f"{self.access.server}/{path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence_seconds)
        try:
            async with self._session.get(url, headers=headers, params=params, timeout=timeout, ssl=self._tls) as answer:
                if answer.status >= 400:
                    raise await self._failure(answer.status, answer.headers, await answer.read())
                opened()
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk if rest else chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                    if len(rest) > LINE_BYTES_MAX:
                        raise Unavailable(f"a watch line is longer than {LINE_BYTES_MAX} bytes")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"watch of {path}: {_text(error)}") from None

    async def _follow_files(self) -> None:
        """A replaced authority or client certificate is used from the next request on; of a bad one the log tells."""
        now = asyncio.get_running_loop().time()
        if now < self._looked_until:
            return
        self._looked_until = now + CREDENTIALS_SECONDS
        if self.access.stamps() == self._stamps:
            return
        await asyncio.to_thread(self.access.renew)
        stamps = self.access.stamps()
        try:
            self._tls = self.access.tls() or True
        except (OSError, ssl.SSLError) as error:
            remedy = "mend the files that the kubeconfig or the service account names; they are read again"
            _log.error("credentials_unreadable", reason=str(error), remedy=remedy)
            return
        self._stamps, self._headers_until = stamps, now
        _log.info("credentials_reloaded")

    def _who_we_are(self) -> Mapping[str, str]:
        now = asyncio.get_running_loop().time()
        if now >= self._headers_until:
            self._headers = {**self.access.headers(), "Accept": "application/json", "User-Agent": USER_AGENT}
            self._headers_until = now + CREDENTIALS_SECONDS
        return self._headers

    async def _failure(self, status: int, headers: Mapping[str, str], content: bytes) -> FairleadError:
        error = _failure(status, headers, content)
        if status == UNAUTHORIZED:
            # Said once, however many requests meet it; the caller comes again as if the API server were away.
            if not self._rejected:
                self._rejected = True
                remedy = "renew the token or certificate that the kubeconfig or the service account names"
                _log.error("credentials_rejected", reason=str(error), remedy=remedy)
            now = asyncio.get_running_loop().time()
            if now - self._renewed_at >= RENEW_SECONDS:
                self._renewed_at = now
                await asyncio.to_thread(self.access.renew)
            self._headers_until = now
        return error


def decoded(decoder: msgspec.json.Decoder[Decoded], content: bytes, path: str) -> Decoded:
    """One answer's body.  Raises ``Unreadable``: what answered in the API server's place may be gone soon."""
    try:
        return api_json.decode(decoder, content)
    except Malformed as error:
        raise Unreadable(f"the answer for {path} cannot be read: {error}") from None


def _proxy(server: str) -> str | None:
    """The proxy the environment names for this server, if any."""
    target = urllib.parse.urlsplit(server)
    if urllib.request.proxy_bypass(target.hostname or ""):
        return None
    return urllib.request.getproxies().get(target.scheme)


def _failure(status: int, headers: Mapping[str, str], content: bytes) -> FairleadError:
    try:
        found = msgspec.json.decode(content, type=_Status)
    except (ValueError, RecursionError):  # whatever a proxy put there instead
        found = _Status(message=content[:ERROR_CHARS_MAX].decode(errors="replace"))
    message = f"API server answered {status}: {found.message[:ERROR_CHARS_MAX]}"
    if status in BUSY:
        after = headers.get("Retry-After", "")
        return Unavailable(message, retry_after_seconds=float(after) if after.isdecimal() else None)
    if status == UNAUTHORIZED:
        return Unavailable(f"API server does not accept our credentials: {found.message[:ERROR_CHARS_MAX]}")
    return Refused(status, message, found.reason)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
