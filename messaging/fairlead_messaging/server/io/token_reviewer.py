"""Asks the Kubernetes API which ServiceAccount a token belongs to.

The API server and the credentials come from the files of the Pod, or from a kubeconfig.  They are read again from time
to time, because tokens of Pods are replaced every hour.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server import access
from fairlead_messaging.server.access import Review, ReviewCache, Subject
from fairlead_wire import errors
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FILE_BYTES_MAX: Final = 1024 * 1024


class NoApiServer(FairleadError):
    """The API server or the credentials for it are unknown; the message names the file or variable."""


class ApiServer(msgspec.Struct, frozen=True, kw_only=True):
    """An API server and the credentials for it; ``url`` has no slash at the end."""

    url: str
    tls: ssl.SSLContext | None
    token: str = ""
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Raises ``NoApiServer``."""
        token = self.token if self.token_file is None else read(self.token_file).decode("ascii", "replace").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def find(kubeconfig: str | None, environ: Mapping[str, str], folder: Path = POD_FOLDER) -> ApiServer:
    """The API server of a kubeconfig, or of the cluster if there is none.  Raises ``NoApiServer``."""
    if kubeconfig is not None:
        return _of_kubeconfig(Path(kubeconfig))
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    if not host:
        raise NoApiServer(
            "entries of [[access]] name ServiceAccounts, whose tokens the Kubernetes API checks, and this is no Pod "
            "(KUBERNETES_SERVICE_HOST is not set): give [token_review] kubeconfig"
        )
    shown = f"[{host}]" if ":" in host else host
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise NoApiServer(f"{folder / 'ca.crt'}: {error}: mount the ServiceAccount's token into this Pod") from None
    return ApiServer(url=f"https://{shown}:{port}", tls=context, token_file=folder / "token")


def read(path: Path) -> bytes:
    """Read a small file.  Raises ``NoApiServer``."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise NoApiServer(f"{path}: {error.strerror or error}") from None


def _of_kubeconfig(path: Path) -> ApiServer:
    import yaml

    try:
        document = yaml.safe_load(read(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise NoApiServer(f"kubeconfig {path}: {str(error)[:200]}") from None
    try:
        context = _named(document, "contexts", document["current-context"])["context"]
        cluster = _named(document, "clusters", context["cluster"])["cluster"]
        user = _named(document, "users", context["user"])["user"]
        server = str(cluster["server"]).rstrip("/")
    except (KeyError, TypeError, StopIteration):
        raise NoApiServer(f"kubeconfig {path}: its current context names no server, or no user") from None
    if not server.startswith("https://"):
        raise NoApiServer(f"kubeconfig {path}: server must be https://host:port, because tokens are sent to it")
    try:
        tls = _tls(cluster, user, path.parent)
    except (OSError, ssl.SSLError, binascii.Error, ValueError) as error:
        raise NoApiServer(f"kubeconfig {path}: its certificates cannot be used: {error}") from None
    file = user.get("tokenFile")
    if user.get("exec") or user.get("auth-provider"):
        raise NoApiServer(f"kubeconfig {path}: give a token, a tokenFile or a certificate, not a plugin")
    return ApiServer(
        url=server, tls=tls, token=str(user.get("token") or ""), token_file=path.parent / file if file else None
    )


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("insecure-skip-tls-verify: tokens are sent only to a server whose certificate is checked")
    authority = _content(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    certificate, key = _content(user, "client-certificate", folder), _content(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as both:  # readable only by its owner, and removed at once
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _content(said: Mapping[str, Any], name: str, folder: Path) -> bytes:
    if data := said.get(f"{name}-data"):
        return base64.b64decode(str(data), validate=True)
    return read(folder / os.path.expanduser(str(said[name]))) if said.get(name) else b""


def _named(document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in document[kind] if each["name"] == name)
    return found


# --- Reviewing tokens.

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ASK_SECONDS: Final = 5.0
ASKING_MAX: Final = 64
"""How many reviews may be pending; further callers are asked to try again later."""
PEER_ASKING_MAX: Final = 8
"""How many of them one address may cause, so that its flood of made-up tokens leaves room for others."""
ANSWER_BYTES_MAX: Final = 256 * 1024
RETRY_SECONDS: Final = 1.0
LOG_SECONDS: Final = 60.0
RENEW_SECONDS: Final = 60.0
"""How long server and credentials are used before their files are read again."""

_log = logs.get("messaging.token_review")


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []
    error: str = ""


class _Answer(msgspec.Struct):
    status: _Status


class TokenReviewer:
    """Call ``account`` for each request.  ``wall`` is the clock for the expiry of tokens, ``steady`` for all else."""

    def __init__(
        self,
        audience: str,
        kubeconfig: str | None = None,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._audience = audience
        self._kubeconfig = kubeconfig
        self._wall = wall
        self._steady = steady
        self._cache = ReviewCache()
        self._asking: dict[bytes, asyncio.Task[Review]] = {}
        self._of_peer: dict[str, int] = {}
        self._session: aiohttp.ClientSession | None = None
        self._server: ApiServer | None = None
        self._found_at = 0.0
        self._limiter = LogLimiter(LOG_SECONDS)
        self.reviews = 0

    async def start(self) -> None:
        """Raises ``NoApiServer``: tokens could never be checked."""
        self._find()
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=ASKING_MAX))

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def account(self, token: str, peer: str) -> Subject | None:
        """The account of a token; None if it is not valid for this service.  Raises: Unavailable if that is unknown."""
        if not access.looks_like_token(token):
            return None
        key = access.token_digest(token)
        kept = self._cache.get(key, self._steady(), self._wall())
        if kept is not None:
            return kept.account
        try:
            return (await self._ask_once(key, token, peer)).account
        except _Away as error:
            kept = self._cache.get(key, self._steady(), self._wall(), away=True)
            if kept is not None:
                return kept.account
            raise _unavailable(str(error)) from None

    async def _ask_once(self, key: bytes, token: str, peer: str) -> Review:
        """Requests with the same token share one review, which goes on if one of them is cancelled."""
        task = self._asking.get(key)
        if task is None:
            if len(self._asking) >= ASKING_MAX or self._of_peer.get(peer, 0) >= PEER_ASKING_MAX:
                # Not ``_Away``: otherwise a flood would make reviews of ten minutes ago count.
                raise _unavailable("too many tokens are being checked")
            self._of_peer[peer] = self._of_peer.get(peer, 0) + 1
            task = self._asking[key] = asyncio.create_task(self._ask(key, token))
            task.add_done_callback(lambda done: self._answered(key, peer, done))
        return await asyncio.shield(task)

    def _answered(self, key: bytes, peer: str, done: asyncio.Task[Review]) -> None:
        self._asking.pop(key, None)
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]
        if not done.cancelled():
            done.exception()  # the waiting requests get it; if all of them have left, asyncio must not report it

    async def _ask(self, key: bytes, token: str) -> Review:
        """Raises ``_Away``, Unavailable."""
        try:
            status = await self._post(token)
        except _Away as error:
            if (times := self._limiter.due("away", self._steady())) is not None:
                _log.warning(
                    "token_review_failed", reason=str(error), times=times,
                    remedy="give the messaging service's ServiceAccount the ClusterRole system:auth-delegator, and let "
                    "it reach the API server; tokens checked in the last ten minutes still count",
                )  # fmt: skip
            raise
        # An API server without support for audiences names none; the token may then be meant for another service.
        valid = status.authenticated and self._audience in status.audiences and not status.error
        account = access.account_of_user(status.user.username) if valid else None
        review = Review(account, self._steady(), access.token_end(token))
        self._cache.put(key, review)
        return review

    async def _post(self, token: str) -> _Status:
        assert self._session is not None
        self.reviews += 1
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            server = self._find()
            async with self._session.post(
                server.url + PATH,
                data=msgspec.json.encode(asked),
                headers={**server.headers(), "Content-Type": "application/json", "Accept": "application/json"},
                ssl=server.tls or True,
                timeout=aiohttp.ClientTimeout(total=ASK_SECONDS),
                allow_redirects=False,
            ) as answer:
                content = await answer.content.read(ANSWER_BYTES_MAX)
                while not answer.content.at_eof() and len(content) < ANSWER_BYTES_MAX:
                    content += await answer.content.read(ANSWER_BYTES_MAX - len(content))
                if answer.status == 429:
                    raise _unavailable("it has too much to do")
                if answer.status not in (200, 201):
                    self._found_at = 0.0  # the credentials may have been renewed
                    raise _Away(f"it answered {answer.status}")
        except NoApiServer as error:
            raise _Away(str(error)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Away(errors.described(error)) from None
        try:
            return msgspec.json.decode(content, type=_Answer).status
        except (ValueError, RecursionError):
            raise _Away("its answer is not a TokenReview") from None

    def _find(self) -> ApiServer:
        now = self._steady()
        if self._server is None or not self._found_at or now - self._found_at >= RENEW_SECONDS:
            self._server, self._found_at = find(self._kubeconfig, os.environ), now
        return self._server


def _unavailable(reason: str) -> Unavailable:
    return Unavailable(
        f"the Kubernetes API cannot review the token now: {reason}",
        code="token_review_unavailable",
        retry_after_seconds=RETRY_SECONDS,
    )


class _Away(Exception):
    """The API server did not answer usefully; the message never contains the token."""
