"""A lean client of the API server: one aiohttp session, raw bytes in and out, limited retries.

The ``kubernetes`` package reads the configuration (``api_access``); requests are made here, because a typed client
costs six times as much CPU per status write and thirty times per event.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from fairlead_hub.cluster.watch_health import RETRY_AFTER_SECONDS_MAX
from fairlead_hub.io.cluster import api_error
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.api_error import UNAUTHORIZED, ApiUnavailable, ApiUnreachable
from fairlead_wire import errors
from fairlead_wire.backoff import Backoff
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

REQUEST_SECONDS = 30.0
ATTEMPTS = 5
BACKOFF = Backoff(0.2, RETRY_AFTER_SECONDS_MAX)
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longest watch line accepted; an object is at most 1.5 MiB in etcd, and JSON may double that."""

CREDENTIALS_SECONDS = 5.0
"""How long credentials are cached: reading them costs as much as the whole request."""
RENEW_SECONDS = 1.0
"""Minimum interval between reads after credentials were rejected."""

MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "fairlead-hub"
"""Also the name under which the API server records who wrote which field (managedFields)."""
_log = logs.get("hub.kube")


class Kube:
    """``request`` for single answers, ``lines`` for a watch.  Close it at the end."""

    def __init__(self, access: ApiAccess) -> None:
        self.access = access
        # No connection limit: each watch keeps a connection, and a hundred kinds must not starve the Lease.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        self._stamps = access.stamps()
        self._tls: ssl.SSLContext | bool = access.tls() or True
        """Passed with each request: connections made with an older context are not reused; watches end in time."""
        self._looked_until = float("-inf")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        # Read once: aiohttp's trust_env reads the environment in a thread for every request, a fifth of its cost.
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=_proxy(access.server))
        self.requests: dict[str, int] = {}
        """Requests by method, for metrics."""
        self.date = ("", 0.0)
        """The ``Date`` of the last answer, and our own time at that moment."""
        self._rejected = False
        """Whether the last answer was 401."""
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
        """Raises ``ApiRefused`` if repeating will not change the answer, ``ApiUnavailable`` after the last attempt.

        ``seconds``: time limit for all attempts together; at 0 or below nothing is sent.
        """
        data = None if body is None else msgspec.json.encode(body)
        if seconds is None:
            return await self._attempts(method, path, data, content_type, params, attempts)
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    return await self._attempts(method, path, data, content_type, params, attempts)
        raise ApiUnavailable(f"no answer from the API server within {max(0.0, seconds):.1f} s")

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
            except ApiUnavailable as error:
                if attempt + 1 == attempts:
                    raise
                wait = error.retry_after_seconds
                await asyncio.sleep(BACKOFF.ceiling(attempt) if wait is None else min(wait, BACKOFF.longest_seconds))
        raise AssertionError("attempts must be at least 1")

    async def _once(
        self, method: str, path: str, data: bytes | None, content_type: str, params: Mapping[str, str] | None
    ) -> bytes:
        self.requests[method] = self.requests.get(method, 0) + 1
        await self._follow_files()
        headers = self._request_headers()
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
        except (aiohttp.ClientConnectorError, aiohttp.ClientConnectorCertificateError) as error:
            text = f"cannot reach the API server at {self.access.server}: {_text(error)}"
            raise ApiUnreachable(text) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiUnavailable(f"API server: {_text(error)}") from None
        except ValueError as error:  # a character that no header may have
            raise ApiUnavailable(f"API server: the request is invalid: {error}; is the token a single line?") from None
        if self._rejected:
            self._rejected = False
            _log.info("credentials_accepted")
        return content

    async def lines(
        self, path: str, params: Mapping[str, str], silence_seconds: float, *, opened: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, until the server ends it.  Raises ``ApiUnavailable`` if it breaks or is silent.

        ``opened`` is called when the server has accepted the watch.  A truncated line is not returned.
        """
        self.requests["WATCH"] = self.requests.get("WATCH", 0) + 1
        await self._follow_files()
        headers = self._request_headers()
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
                        raise ApiUnavailable(f"a watch line is longer than {LINE_BYTES_MAX} bytes")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiUnavailable(f"watch of {path}: {_text(error)}") from None
        except ValueError as error:
            raise ApiUnavailable(
                f"watch of {path}: the request is invalid: {error}; is the token a single line?"
            ) from None

    async def _follow_files(self) -> None:
        """Use a replaced authority or client certificate from the next request on; log unusable files."""
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
            remedy = "fix the files that the kubeconfig or the service account names; they are read again"
            _log.error("credentials_unreadable", reason=str(error), remedy=remedy)
            return
        self._stamps, self._headers_until = stamps, now
        _log.info("credentials_reloaded")

    def _request_headers(self) -> Mapping[str, str]:
        now = asyncio.get_running_loop().time()
        if now >= self._headers_until:
            self._headers = {**self.access.headers(), "Accept": "application/json", "User-Agent": USER_AGENT}
            self._headers_until = now + CREDENTIALS_SECONDS
        return self._headers

    async def _failure(self, status: int, headers: Mapping[str, str], content: bytes) -> FairleadError:
        error = api_error.of_answer(status, headers, content)
        if status == UNAUTHORIZED:
            # Logged once, however many requests fail; the caller retries as if the API server were away.
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


def _proxy(server: str) -> str | None:
    """The proxy for this server from the environment, if any."""
    target = urllib.parse.urlsplit(server)
    if urllib.request.proxy_bypass(target.hostname or ""):
        return None
    return urllib.request.getproxies().get(target.scheme)


def _text(error: BaseException) -> str:
    return errors.text_of(error)
