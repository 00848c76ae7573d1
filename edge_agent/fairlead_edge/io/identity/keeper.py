"""Keeps the node's certificate and authorities current; the link reports its events here.

before a dial ──▶ is the clock trusted? if not, certificates are checked against the earliest possible time
session opens ──▶ last-session.json; Renewer: when to renew; the old pair is removed
authorities ───▶ AuthoritiesKeeper: written for the next dial; Renewer: sooner, if another authority signs now
refused by TLS ─▶ a new pair: roll back to the one before it │ expired: LateRenewal
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from fairlead_edge.identity import clock
from fairlead_edge.identity.certificate import CertificateStatus
from fairlead_edge.io.identity import keys, last_session
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError
from fairlead_edge.io.identity.last_session import LastSession
from fairlead_edge.io.identity.renewer import Ask, LateRenewal, Renewer
from fairlead_edge.io.link.dialler import Dialler, LinkUnreachable, TurnedAway
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.objects import session_events
from fairlead_edge.objects.metastore import Metastore
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle
from fairlead_wire.io import handshake, logs, tls

_KEPT: Final = "the old authorities stay in use"


class IdentityKeeper:
    """``renewer`` is None if the files were not made by ``fairlead edge join``, so that another program renews them."""

    def __init__(
        self,
        *,
        data_dir: Path,
        files: tls.Files,
        renewer: Renewer | None,
        late: LateRenewal | None,
        fence: Callable[[], Awaitable[int]],
        authorities: AuthoritiesKeeper | None = None,
    ) -> None:
        self.authorities = authorities or AuthoritiesKeeper(files.ca, None)
        self._data_dir, self._files, self._fence = data_dir, files, fence
        self.renewer, self._late = renewer, late
        self._last = last_session.read(data_dir)
        self.judgement = self._judge()

    def _judge(self) -> clock.Judgement:
        own = self._files.certificate()
        anchor = self._last.time if self._last is not None else None
        not_before = own.not_before.timestamp() if own is not None else None
        return clock.judge(store_clock.read(), anchor, own_not_before=not_before)

    def status(self) -> CertificateStatus:
        """The current status."""
        own, renewer = self._files.certificate(), self.renewer
        return CertificateStatus(
            certificate=own,
            renewal=renewer.state if renewer is not None else None,
            renewal_in_seconds=renewer.seconds_left() if renewer is not None else None,
            distrust=self.judgement.distrust,
            authorities=self.authorities.held(),
            counters=self.authorities.counters + renewer.counters if renewer is not None else self.authorities.counters,
        )

    # ---- link.CertificateKeeper ------------------------------------------------------------------

    def dialling(self, context: ssl.SSLContext | None) -> None:
        before, self.judgement = self.judgement.distrust, self._judge()
        distrust = self.judgement.distrust
        if distrust and not before:
            _log.warning(
                "clock_distrusted", reason=distrust, remedy="set the clock; certificates are checked against that time"
            )
        elif before and not distrust:
            _log.info("clock_believed")
        if isinstance(context, handshake.HandshakeContext):
            context.distrust_clock(self._earliest)

    @property
    def _earliest(self) -> float | None:
        return self.judgement.earliest if self.judgement.distrust else None

    async def remember(self, store_epoch: int, peer: Mapping[str, Any] | None) -> None:
        try:
            not_before = ssl.cert_time_to_seconds((peer or {})["notBefore"])
        except (KeyError, ValueError):
            not_before = None
        anchor = clock.anchored(store_clock.read(), self.judgement, peer_not_before=not_before)
        self._last = LastSession(store_epoch=store_epoch, time=anchor)
        await asyncio.to_thread(last_session.write, self._data_dir, self._last)

    def opened(self, welcome: message.Welcome, context: ssl.SSLContext | None) -> None:
        if self.renewer is not None:
            self.renewer.opened(welcome, getattr(context, "own", None))

    def authorities_received(self, header: message.Authorities, content: bytes) -> None:
        if header.renew_after_seconds is not None and self.renewer is not None:
            self.renewer.hasten(header.renew_after_seconds)
        if content:
            self.authorities.authorities_received(header, content)

    def ended(self) -> None:
        if self.renewer is not None:
            self.renewer.ended()

    async def unreachable(
        self, error: LinkUnreachable, context: ssl.SSLContext | None, end: session_events.Close
    ) -> session_events.Close:
        refused, own = error.refused, getattr(context, "own", None)
        if self.renewer is None or self._late is None or own is None:
            return end
        is_refused = refused is not None and refused.ours
        has_ended = own.not_after.timestamp() < (self._earliest or time.time())
        is_expired = is_refused and refused is not None and refused.check == _EXPIRED
        why = refused.check if refused is not None else ""
        if is_refused and self.renewer.refused(own, why, has_ended=is_expired):
            return end
        if not is_expired and not (error.hung_up and has_ended):
            return end
        last = self._last
        try:
            return await self._late.attempt(
                store_epoch=last.store_epoch if last is not None else 0,
                fence=await self._fence(),
                earliest=self._earliest,
            )
        except (LinkUnreachable, TurnedAway) as failed:
            reason = f"{end.reason}; the late renewal did not reach the hub: {failed}"
            return session_events.Close(code="certificate", reason=reason, retry_after=LATE_SECONDS)


def open_keeper(
    settings: EdgeSettings, data_dir: Path, store: Metastore, *, agent: str, renew: Ask
) -> IdentityKeeper | None:
    """The keeper of an agent with these settings; None if security is off."""
    if settings.security != "mtls":
        return None
    assert settings.tls_ca and settings.tls_cert and settings.tls_key  # EdgeSettings refuses mtls without them
    files = tls.Files(ca=Path(settings.tls_ca), cert=Path(settings.tls_cert), key=Path(settings.tls_key))
    own, node = IdentityFiles.of(data_dir), settings.node
    renewer = late = None
    if files.cert.absolute() == files.key.absolute() == own.link.absolute():
        renewer = Renewer(own, node=node, ask=renew, random=Random())
        dialler = Dialler(settings.hub_url, agent=agent)
        late = LateRenewal(own, renewer, node=node, agent=agent, dial=dialler.connect)
    is_ours = files.ca.absolute() == own.authorities.absolute()
    authorities = AuthoritiesKeeper(files.ca, own if is_ours else None)
    return IdentityKeeper(
        data_dir=data_dir, files=files, renewer=renewer, late=late, fence=store.fence, authorities=authorities
    )


class AuthoritiesKeeper:
    """The authorities that this node trusts; the hub may replace them in a session.

        authorities ─▶ the newest are kept ─▶ do they verify the hub's current certificate?
                                               ├─ yes: file, fsync, rename; next dial: a new TLS context
                                               └─ no: logged, the old ones stay

    ``path`` is that of ``tls_ca``.  ``files`` is None if the file was not made by ``fairlead edge join``; then it
    belongs to another program and is never written.
    """

    def __init__(self, path: Path, files: IdentityFiles | None) -> None:
        self._path, self._files = path, files
        self._newest: tuple[message.Authorities, bytes] | None = None
        self._news = asyncio.Event()
        self._read: tuple[tuple[int, int, int], str] | None = None
        self.counters: Counter[str] = Counter()
        """Bundles that the hub sent, by outcome: replaced, refused."""

    def held(self) -> str:
        """The digest of the authorities for the next dial; empty if they cannot be read."""
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._read is None or self._read[0] != stamp:
                with self._path.open("rb") as file:
                    self._read = (stamp, authority_bundle.digest(file.read(authority_bundle.BYTES_MAX + 1)))
        except (OSError, ValueError):
            return ""
        return self._read[1]

    def authorities_received(self, header: message.Authorities, content: bytes) -> None:
        """Take over authorities that the hub sent; of several, only the newest are written."""
        self._newest = (header, content)
        self._news.set()

    async def run(self, changed: Callable[[], None]) -> None:
        """Write received authorities; runs until cancelled.  ``changed`` is called after each replacement."""
        while True:
            await self._news.wait()
            self._news.clear()
            newest, self._newest = self._newest, None
            if newest is not None and await self.take(*newest):
                changed()

    async def take(self, header: message.Authorities, content: bytes) -> bool:
        """Write the authorities if the hub's certificate is verified by them; returns True if they were written."""
        try:
            wanted = authority_bundle.digest(content)
            if wanted == self.held():
                return False
            if self._files is None:
                raise ValueError(f"the agent does not manage {self._path}: put the hub's authorities there")
            if not await keys.reaches(header.certificates.encode(), content):
                raise ValueError("none of them issued the hub's certificate, so they would lock this node out")
            await asyncio.to_thread(self._files.write_authorities, content)
        except (ValueError, IdentityFilesError, keys.KeyMakerFailed) as error:
            self.counters["authorities_refused"] += 1
            _log.error("authorities_refused", reason=str(error), remedy=f"check tls_ca of the hub; {_KEPT}")
            return False
        self.counters["authorities_replaced"] += 1
        _log.info("authorities_replaced", digest=wanted, certificates=len(authority_bundle.certificates(content)))
        return True


LATE_SECONDS: Final = 10.0
"""The pause after a late renewal that did not reach the hub."""
_EXPIRED: Final = handshake.ALERTS["CERTIFICATE_EXPIRED"]
_log = logs.get("edge.identity")
