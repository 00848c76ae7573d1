"""Who may send to a node: identifies the caller, and checks the cluster's rules (RBAC).

    Authorization: Bearer …  ─TokenReview─▶ user, groups ┐
    certificate of tls_ca    ─▶ fairlead:<name>          ├─SubjectAccessReview─▶ yes | no, kept for ten seconds
    neither                  ─▶ refused                  ┘   create|get edgenodes/inputs, by the node's name

With ``security = "insecure"`` all programs on this machine may, since they may also claim to be any node.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.objects.api_group import GROUP

TOKEN_REVIEWS: Final = "apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "apis/authorization.k8s.io/v1/subjectaccessreviews"
RESOURCE: Final = "edgenodes"
SUBRESOURCE: Final = "inputs"
CERTIFICATE_USER: Final = "fairlead:"
"""Prefix of names from certificates: this authority is not the cluster's and must not name its users."""
KNOWN_SECONDS: Final = 10.0
REFUSED_SECONDS: Final = 1.0
"""Shorter than for allowed callers: a person who is refused grants the right and tries again."""
KNOWN_MAX: Final = 4096
ASK_SECONDS: Final = 5.0
ASKING_MAX: Final = 16
WAITING_MAX: Final = 256
TOKEN_CHARS_MAX: Final = 8192
NAME_CHARS_MAX: Final = 256
SAID_SECONDS: Final = 60.0

Verb = Literal["create", "get"]
_log = logs.get("hub.inputs")


class ReviewClient(Protocol):
    """The part of ``io.cluster.kube.Kube`` that is used."""

    async def request(
        self, method: str, path: str, body: Any = None, *, attempts: int = 1, seconds: float | None = None
    ) -> bytes: ...


class Requester(msgspec.Struct, frozen=True):
    """The presented identity: a token, or the name in a certificate; with neither, the caller is anonymous."""

    token: str = ""
    certificate: str = ""


class AccessDenied(Exception):
    """``status`` 401: identify yourself; 403: not allowed; 503: the check is not possible now."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class _ReviewedUser(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _ReviewedUser = msgspec.field(default_factory=_ReviewedUser)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class AccessReview:
    """``is_open``: there is no security at all."""

    def __init__(self, kube: ReviewClient, *, is_open: bool, clock: Callable[[], float]) -> None:
        self._kube, self._is_open, self._clock = kube, is_open, clock
        self._known: dict[bytes, tuple[float, str]] = {}
        """By caller, verb and node: when it was checked, and the user who is refused; "" if allowed."""
        self._room = asyncio.Semaphore(ASKING_MAX)
        self._waiting = 0
        self._said = LogLimiter(SAID_SECONDS)

    async def check(self, caller: Requester, verb: Verb, node: str) -> None:
        """Raises ``AccessDenied``."""
        if self._is_open:
            return
        if not caller.token and not caller.certificate:
            raise AccessDenied(
                401,
                "no_identity",
                "send a token (Authorization: Bearer …, for example of `kubectl create token NAME`) or, where the hub"
                " listens beyond loopback, a certificate",
            )
        if len(caller.token) > TOKEN_CHARS_MAX or len(caller.certificate) > NAME_CHARS_MAX:
            raise AccessDenied(401, "no_identity", "the token or the certificate's name is too long")
        key = hashlib.sha256(msgspec.json.encode([caller.token, caller.certificate, verb, node])).digest()
        known = self._known.get(key)
        if known is not None and self._clock() - known[0] < (KNOWN_SECONDS if known[1] == _MAY else REFUSED_SECONDS):
            allowed = known[1]
        else:
            allowed = await self._ask(caller, verb, node)
            self._known.pop(key, None)
            while len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[key] = (self._clock(), allowed)
        if allowed != _MAY:
            who = allowed or f"{CERTIFICATE_USER}{caller.certificate}"
            raise AccessDenied(
                403,
                "forbidden",
                f"{who[:NAME_CHARS_MAX]} may not {verb} {RESOURCE}/{SUBRESOURCE} of group {GROUP}, name {node}: grant"
                " it with a ClusterRole and a ClusterRoleBinding",
            )

    async def _ask(self, caller: Requester, verb: Verb, node: str) -> str:
        """``_MAY``, or the user who is refused.

        Raises ``AccessDenied`` for an unknown token, or if the check fails.
        """
        if self._waiting >= WAITING_MAX:
            raise AccessDenied(503, "busy", f"{WAITING_MAX} callers are being checked")
        self._waiting += 1
        try:
            async with self._room:
                user = await self._user(caller)
                attributes = {
                    "group": GROUP, "version": "*", "resource": RESOURCE, "subresource": SUBRESOURCE,
                    "name": node, "verb": verb,
                }  # fmt: skip
                spec = {
                    "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
                    "resourceAttributes": attributes,
                }  # fmt: skip
                found = await self._post(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
                allowed = msgspec.json.decode(found, type=_AccessReview).status.allowed
                return _MAY if allowed else user.username
        except (ApiRefused, ApiUnavailable, msgspec.DecodeError) as error:
            if (times := self._said.due("review", self._clock())) is not None:
                remedy = "let the hub's account create tokenreviews and subjectaccessreviews (the chart does)"
                _log.warning("access_unknown", reason=str(error), remedy=remedy, times=times)
            raise AccessDenied(
                503, "access_unknown", "the API server did not answer the access check; see the hub's log"
            ) from None
        finally:
            self._waiting -= 1

    async def _user(self, caller: Requester) -> _ReviewedUser:
        if not caller.token:
            return _ReviewedUser(username=CERTIFICATE_USER + caller.certificate)
        content = await self._post(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": caller.token})
        found = msgspec.json.decode(content, type=_TokenReview).status
        if not found.authenticated or not found.user.username:
            raise AccessDenied(401, "no_identity", "the API server does not know this token, or it has expired")
        return found.user

    async def _post(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        return await self._kube.request("POST", path, body, attempts=1, seconds=ASK_SECONDS)


_MAY: Final = "\x00may"
"""No user has this name."""
