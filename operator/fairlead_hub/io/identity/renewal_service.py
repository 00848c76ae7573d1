"""Renewal in a session: the node sends a request and gets its next certificate while everything else continues.

    renew ─accept─▶ queue ─ ``WORKERS`` ▸ request checked ▸ signed ─▶ issued, in the session it came from
                      └─ refused, or the signer is away: nack; the node asks again later

The name is the session's, never the request's.  If the session ended meanwhile, nothing is sent: its node asks again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.hub import Hub
from fairlead_hub.identity import refusal
from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignedCertificate, SignerUnavailable
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.token_bucket import TokenBucket
from fairlead_wire import message
from fairlead_wire.io import logs
from fairlead_wire.io.tls import RFC_3339
from fairlead_wire.log_limiter import LogLimiter

WORKERS: Final = 8
"""Parallel requests to a signer."""
RETRY_SECONDS: Final = 30.0
REFUSED_SECONDS: Final = 600.0
OFTEN_SECONDS: Final = 10.0
"""Average interval between certificates of a node: unlimited requests would cost signing, writes and events."""
OFTEN_BURST: Final = 10.0
REMEMBERED_MAX: Final = 10_000
TOLD_SECONDS: Final = 60.0
_encoder = msgspec.json.Encoder()
_log = logs.get("hub.identity")


def shown(issued: SignedCertificate) -> NodeCertificate:
    """A certificate in the form the core uses."""
    return NodeCertificate(
        issued=issued.not_before.strftime(RFC_3339),
        expires=issued.not_after.strftime(RFC_3339),
        serial=issued.serial,
        issuer=issued.issuer,
    )


class RenewalService:
    """``roots`` is the PEM of the hub's own authorities, ``issuers`` of those of nodes.

    ``counts`` receives the outcome of each request.
    """

    def __init__(
        self,
        hub: Hub,
        issuing: Issuing,
        *,
        roots: Callable[[], bytes],
        issuers: Callable[[], bytes],
        clock: Callable[[], float],
        counts: Counter[str],
    ) -> None:
        self._hub, self._issuing, self._clock, self._counts = hub, issuing, clock, counts
        self._roots, self._issuers = roots, issuers
        self._waiting: dict[SessionRef, tuple[int, bytes]] = {}
        """Oldest first; one per session."""
        self._more = asyncio.Event()
        self._told = LogLimiter(TOLD_SECONDS)
        self._often: dict[str, TokenBucket] = {}
        """By node, oldest first: how many it may have now."""

    def accept(self, session: SessionRef, header: message.Renew, request: bytes) -> None:
        """Queue a request; it is answered later, in the session."""
        if session in self._waiting:
            before, _ = self._waiting.pop(session)
            self._refuse(session, before, IdentityRefused("too_many", "a newer request of this session arrived"))
        self._waiting[session] = (header.id, request)
        self._more.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"renewal {number}")

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            session = next(iter(self._waiting))
            id, request = self._waiting.pop(session)
            if self._hub.sessions.is_open(session):
                await self._renew(session, id, request)
            await asyncio.sleep(0)  # signing is CPU work: let other tasks run

    async def _renew(self, session: SessionRef, id: int, request: bytes) -> None:
        try:
            self._issuing.require()
            self._require_not_often(session.node)
            checked = self._issuing.check(session.node, request)
            issued = await self._issuing.issue(
                session.node, checked, revoked_before=self._hub.certificates.revoked_before(session.node)
            )
            content = message.IssuedCertificates(
                certificates=issued.chain.decode(),
                authorities=self._roots().decode(),
                issuers=self._issuers().decode(),
            )
        except (CsrRefused, SignerUnavailable, IdentityRefused) as error:
            self._refuse(session, id, refusal.of(error))
            return
        except (OSError, ValueError) as error:
            self._refuse(session, id, IdentityRefused("signer_unavailable", f"the hub's authorities: {error}"))
            return
        if not self._hub.sessions.is_open(session):
            return
        now = self._clock()
        self._counts["renewed"] += 1
        facts = shown(issued)
        _log.info("identity_renewed", node=session.node, serial=facts.serial, expires=facts.expires)
        header = message.Issued(
            parent_id=id,
            node=session.node,
            expires=facts.expires,
            renew_after_seconds=self._hub.certificates.renew_after(facts, now),
        )
        self._hub.sessions.say(session, header, _encoder.encode(content))
        self._hub.certificates.renewed(session, facts, now)

    def _require_not_often(self, node: str) -> None:
        """Raises ``IdentityRefused``.  Limited by name: a node gains nothing by reconnecting for each request."""
        now = self._clock()
        bucket = self._often.pop(node, TokenBucket(1 / OFTEN_SECONDS, OFTEN_BURST))
        self._often[node] = bucket
        while len(self._often) > REMEMBERED_MAX:
            del self._often[next(iter(self._often))]
        if not bucket.has_one(now):
            wait = max(1.0, bucket.next_at(now) - now)
            raise IdentityRefused("too_many", "this node renews too often", retry_after=wait)
        bucket.take(now)

    def _refuse(self, session: SessionRef, id: int, error: IdentityRefused) -> None:
        self._counts[error.code] += 1
        now = self._clock()
        times = self._told.due((session.node, error.code), now)
        if times is not None:
            _log.warning("renewal_refused", node=session.node, code=error.code, reason=str(error), times=times)
        if not self._hub.sessions.is_open(session):
            return
        is_passing = error.code in ("signer_unavailable", "clock", "too_many")
        retry_after = error.retry_after or (RETRY_SECONDS if is_passing else REFUSED_SECONDS)
        nack = message.Nack(
            parent_id=id, code=error.code, reason=str(error), permanent=not is_passing, retry_after=retry_after
        )
        self._hub.sessions.say(session, nack)
        if error.code != "too_many":
            self._hub.certificates.renewal_failed(session, error.code, str(error), now)
