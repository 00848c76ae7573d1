"""Identifies callers and checks their grants; refusals are counted, and logged at a limited rate.

certificate ─────────────────→ Identity ─AccessTable→ Caller ─check(verb, topic)→ go on, or Forbidden
token ─TokenReviewer─→ account ───┘
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

from fairlead_messaging.api.errors import CertificateEnded, Forbidden, Unauthenticated
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import access
from fairlead_messaging.server.access import AccessTable, Caller, Identity
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.token_reviewer import TokenReviewer
from fairlead_messaging.server.settings import MessagingSettings, access_table
from fairlead_wire.io import logs
from fairlead_wire.io.settings import SettingsError
from fairlead_wire.log_limiter import LogLimiter

LOG_SECONDS: Final = 60.0
"""The least time between two log lines about the same subject, verb and reason."""
TOPIC_CHARS_MAX: Final = 401
CALLERS_KEPT: Final = 1024
"""For how many certificates the names are kept."""
BEARER: Final = "bearer "
CLOSING_SECONDS: Final = 180.0
"""How long before its certificate expires a connection is closed after an answer, so that the client presents its
renewed certificate: longer than a connection may be idle and a long poll may wait together."""

_log = logs.get("messaging.access")


class AccessControl:
    """Identifies callers and refuses what no entry of ``table`` grants them."""

    def __init__(
        self,
        table: AccessTable,
        metrics: MessagingMetrics,
        reviewer: TokenReviewer | None = None,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._metrics = metrics
        self._reviewer = reviewer
        self._wall = wall
        self.replaced = 0
        """How often the grants were replaced; requests that waited since the last time are checked again."""
        self._limiter = LogLimiter(LOG_SECONDS)
        # The names of a certificate are read once, not for each request of its connection.
        self._of_names = lru_cache(CALLERS_KEPT)(self._find)

    @property
    def takes_tokens(self) -> bool:
        """Whether a caller without a certificate may present a token."""
        return self._reviewer is not None

    def replace(self, table: AccessTable) -> None:
        """Use these grants from the next request on, including requests on open connections."""
        self._table = table
        self.replaced += 1
        self._of_names.cache_clear()

    async def start(self) -> None:
        """Raises ``FairleadError`` when tokens cannot be checked at all."""
        if self._reviewer is not None:
            await self._reviewer.start()

    async def close(self) -> None:
        if self._reviewer is not None:
            await self._reviewer.close()

    async def caller(self, certificate: Mapping[str, Any] | None, authorization: str | None, peer: str) -> Caller:
        """Identify the caller.  A token takes precedence over a certificate, which may be a proxy's.

        Raises: Unauthenticated; Forbidden for a caller without any grant; Unavailable if a token cannot be checked.
        """
        if authorization is not None and authorization[: len(BEARER)].lower() == BEARER and self._reviewer is not None:
            account = await self._reviewer.account(authorization[len(BEARER) :].strip(), peer)
            if account is None:
                self._unknown("the token is not valid for this service", peer)
            caller, refused = self._with_grants(Identity((account,)))
        elif certificate:
            self._check_end(certificate, peer)
            caller, refused = self._of_names(certificate.get("subject", ()), certificate.get("subjectAltName", ()))
        else:
            self._unknown("neither a certificate nor a token was shown", peer)
        if refused:
            self._refuse_altogether(caller, refused, peer)
        return caller

    def _refuse_altogether(self, caller: Caller, reason: str, peer: str) -> NoReturn:
        self._say(caller.shown, "", "", reason, peer)
        raise Forbidden(f"{caller.shown} may not use this service: {reason}")

    def is_to_close(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether to close the connection after this answer, because its certificate expires soon."""
        return certificate is not None and self._wall() >= _end_of(certificate) - CLOSING_SECONDS

    def refuse(self, caller: Caller, verb: Verb, topic: str, peer: str) -> NoReturn:
        """Refuse what no entry grants.  Raises: Forbidden, naming verb and topic."""
        shown = topic if len(topic) <= TOPIC_CHARS_MAX else f"{topic[:TOPIC_CHARS_MAX]}…"
        self._say(caller.shown, str(verb), shown, "not granted", peer)
        where = f" to {shown}" if verb is Verb.PUBLISH else f" {shown}" if shown else ""
        if not shown:
            where = " any topic"
        raise Forbidden(
            f"{caller.shown} may not {verb}{where}: no access entry grants it; add one to [[access]] of the messaging "
            "service",
            verb=str(verb),
            **({"topic": shown} if shown else {}),
        )

    def _find(self, names: tuple[Any, ...], alternatives: tuple[Any, ...]) -> tuple[Caller, str]:
        return self._with_grants(access.identity_of_certificate({"subject": names, "subjectAltName": alternatives}))

    def _with_grants(self, identity: Identity) -> tuple[Caller, str]:
        """The caller with its grants, and why it may do nothing at all, or ""."""
        grants = self._table.of(identity)
        refused = identity.refused or ("" if grants else "no access entry applies to it")
        return Caller(str(identity), identity.owner, grants), refused

    def _check_end(self, certificate: Mapping[str, Any], peer: str) -> None:
        """Refuse an expired certificate: TLS checks it only once, and a connection may last for years.

        Raises: CertificateEnded.
        """
        if self._wall() >= _end_of(certificate):
            reason = "the certificate has ended since this connection was opened"
            self._say("", "", "", reason, peer)
            raise CertificateEnded(f"{reason}: connect again with a renewed one")

    def _unknown(self, reason: str, peer: str) -> NoReturn:
        self._say("", "", "", reason, peer)
        raise Unauthenticated(f"{reason}: show a certificate of this service's authority, or a token made for it")

    def _say(self, who: str, verb: str, topic: str, reason: str, peer: str) -> None:
        """Log the refusal, at a limited rate for a subject that tries every possible topic."""
        self._metrics.access_refused.labels(verb or "none").inc()
        key = (who, verb, reason) if who else (peer, "", reason)
        times = self._limiter.due(key, time.monotonic())
        if times is not None:
            _log.warning("access_refused", subject=who, verb=verb, topic=topic, reason=reason, peer=peer, times=times)


def _end_of(certificate: Mapping[str, Any]) -> float:
    return _seconds(str(certificate.get("notAfter", "")))


@lru_cache(CALLERS_KEPT)
def _seconds(text: str) -> float:
    """A Unix time; infinity if there is none."""
    try:
        return float(ssl.cert_time_to_seconds(text))
    except (ValueError, OverflowError):
        return math.inf


def of_settings(
    settings: MessagingSettings, metrics: MessagingMetrics, *, wall: Callable[[], float] = time.time
) -> AccessControl:
    """The access control of these settings, which is not used with ``security = "insecure"``."""
    if settings.security == "mtls" and not settings.access:
        _log.warning("access_denied_to_all", reason="there is no [[access]] entry", remedy="write one for each client")
    review = settings.token_review
    names_accounts = any(each.entry.subject.kind == "serviceaccount" for each in settings.access)
    reviewer = TokenReviewer(review.audience, review.kubeconfig) if names_accounts else None
    return AccessControl(access_table(settings.access), metrics, reviewer, wall=wall)


# --- Reloading [[access]] while the service runs.
# file changed ─▶ all settings read and checked ─▶ a table that may replace the current one ─▶ AccessControl
#                         └────── wrong ──────────────────┴──▶ the old grants stay, and a log line says why

CHECK_SECONDS: Final = 1.0

_Stamp = tuple[int, int, int, int] | None


class CannotReplace(Exception):
    """The grants of a file cannot be used without a restart; the message says why."""


async def keep_loaded(
    path: Path,
    settings: MessagingSettings,
    access: AccessControl,
    read: Callable[[Path], MessagingSettings],
    *,
    seconds: float = CHECK_SECONDS,
) -> None:
    """Reload the grants when their file changes, until cancelled.

    ``settings`` are those in force, which ``read`` returned for ``path``, perhaps a while ago.
    """
    last = _stamp(path)
    known: _Stamp | str = "none: the file may have changed between its reading and this first look"
    while True:
        await asyncio.sleep(seconds)
        before, last = last, _stamp(path)
        # The file must be the same twice: half of one that is being written may be valid and grant less.
        if last == known or last != before:
            continue
        known = last
        try:
            # In a thread, because ten thousand entries take a while to check.
            found = await asyncio.to_thread(read, path)
            changed = found.access != settings.access
            if changed:
                _replace(access, found)
                settings = settings.model_copy(update={"access": found.access})
        except (SettingsError, CannotReplace) as error:
            _log.error("access_kept", reason=str(error), remedy=f"correct {path}; until then the previous grants apply")
            continue
        if changed:
            _log.info("access_reloaded", entries=len(found.access), file=str(path))
        if found != settings:
            _log.warning("restart_needed", file=str(path), reason="settings other than [[access]] changed")


def _replace(access: AccessControl, found: MessagingSettings) -> None:
    """Raises ``CannotReplace``."""
    accounts = any(each.entry.subject.kind == "serviceaccount" for each in found.access)
    if accounts and not access.takes_tokens:
        raise CannotReplace("an entry names a ServiceAccount, and no entry did when the service started; restart it")
    access.replace(access_table(found.access))


def _stamp(path: Path) -> _Stamp:
    """Identifies the current content of the file, even behind the links of a ConfigMap; None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    # With the time of change (ctime): a file becomes readable by a new mode or owner, which leaves its mtime.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
