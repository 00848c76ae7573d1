"""The running parts of the hub's identity service: signer, JoinTokens, clock check, and conversations with devices.

settings, authorities ─▶ IdentityService ─ joining ─▶ LinkServer
                    └─ run: watches and completes JoinTokens, reloads signer files, checks clock, pins and authorities
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead_hub.hub import Hub
from fairlead_hub.identity import refusal
from fairlead_hub.identity.join_tokens import JoinTokens
from fairlead_hub.identity.joining import Admitted
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import Authority, SignedCertificate, Signer
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.reflector import Reflector
from fairlead_hub.io.identity import join_token_watch
from fairlead_hub.io.identity.announcer import Announcer
from fairlead_hub.io.identity.authorities import LoadedAuthorities
from fairlead_hub.io.identity.cert_manager_signer import CertManagerSigner
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.join_service import JoinService
from fairlead_hub.io.identity.join_token_watch import JoinTokenWatch
from fairlead_hub.io.identity.joining import JoinServer
from fairlead_hub.io.identity.late_service import LateService
from fairlead_hub.io.identity.renewal_service import RenewalService
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.settings import IdentitySettings
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle, join_token
from fairlead_wire.io import logs
from fairlead_wire.io.tls import RFC_3339
from fairlead_wire.log_limiter import LogLimiter

POLL_SECONDS: Final = 5.0
TOLD_SECONDS: Final = 60.0
SKEW_TOLD_SECONDS: Final = 600.0
LEASE_RETRY_SECONDS: Final = 2.0
_log = logs.get("hub.identity")


def file_signer(settings: IdentitySettings, authorities: LoadedAuthorities) -> FileSigner | None:
    """The signer ``files``, if configured.  Raises ``SignerFilesError``."""
    if settings.signs_with != "files":
        return None
    assert settings.ca_cert and settings.ca_key
    return FileSigner(Path(settings.ca_cert), Path(settings.ca_key), trusted=authorities.trusted_nodes)


def cert_manager_signer(
    settings: IdentitySettings,
    kube: Kube,
    *,
    namespace: str,
    authorities: LoadedAuthorities,
    seconds_left: Callable[[], float],
) -> CertManagerSigner | None:
    """The signer ``cert-manager``, if configured; ``namespace`` is the hub's."""
    if settings.signs_with != "cert-manager" or settings.issuer is None:
        return None
    return CertManagerSigner(
        kube,
        namespace=namespace,
        issuer=settings.issuer,
        trusted=authorities.trusted_nodes,
        seconds_left=seconds_left,
    )


class IdentityService:
    """See the module docstring.

    ``seconds_left``: for how long this hub may still write; 0 if another may hold the Lease.
    """

    def __init__(
        self,
        settings: IdentitySettings,
        hub: Hub,
        kube: Kube,
        *,
        signer: Signer,
        roots: Callable[[], bytes],
        issuers: Callable[[], bytes],
        own_certificate: Callable[[], bytes],
        own_chain: Callable[[], bytes],
        trusted_nodes: Callable[[], list[bytes]],
        clock: Callable[[], float],
        seconds_left: Callable[[], float],
        may_send: Callable[[], bool],
        counts: IoCounts,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._hub, self._kube, self._signer = settings, hub, kube, signer
        self._roots, self._clock, self._seconds_left, self._wall = roots, clock, seconds_left, wall
        self._may_send, self._counts = may_send, counts
        self.skew = 0.0
        """Seconds by which our clock is ahead of the API server's."""
        self._told, self._skew_logged = LogLimiter(TOLD_SECONDS), LogLimiter(SKEW_TOLD_SECONDS)
        self._watch = JoinTokenWatch(kube, JoinTokens(), seconds_left=seconds_left)
        self.issuing = Issuing(
            signer,
            installation=settings.installation,
            days=settings.certificate_days,
            wall=wall,
            refusal=self._may_not_sign,
        )
        service = JoinService(
            kube,
            self._watch,
            self.issuing,
            known=hub.certificates.known_identity,
            clock=clock,
            seconds_left=seconds_left,
            joined=self._joined,
            refused=self._refused,
        )
        hub.certificates.signs(lambda: signer.authority)
        self.renewals = RenewalService(
            hub, self.issuing, roots=roots, issuers=issuers, clock=clock, counts=counts.renewals
        )
        late = LateService(
            hub,
            self.issuing,
            hub_certificate=own_certificate,
            roots=trusted_nodes,
            clock=clock,
            counts=counts.renewals,
        )
        self._announcer = Announcer(roots=roots, own=own_chain, announce=hub.certificates.announce)
        self.joining = JoinServer(
            service, roots=roots, issuers=issuers, may_send=may_send, late=late, refused=self._turned_away
        )

    @property
    def authority(self) -> Authority:
        return self._signer.authority

    @property
    def signer_ends(self) -> tuple[str, str, float] | None:
        """Name, fingerprint and expiry (Unix time) of the authority that signs; None if only the issuer knows."""
        found = self.authority
        return (found.name, found.fingerprint, found.not_after.timestamp()) if found.fingerprint else None

    async def run(self) -> None:
        """Run until cancelled."""
        authority = self.authority
        _log.info(
            "signer", signer=self._settings.signs_with, authority=authority.name, fingerprint=authority.fingerprint
        )
        reflector = Reflector(self._kube, join_token_watch.ROOT, self._watch)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="watch jointokens")
            group.create_task(self._watch.fill(), name="join tokens")
            if isinstance(self._signer, FileSigner):
                group.create_task(self._signer.keep_loaded(), name="signer")
            group.create_task(self._refresh(), name="pins and clock")
            group.create_task(self.renewals.run(), name="renewals")
            group.create_task(self._announcer.run(), name="authorities")

    async def _refresh(self) -> None:
        said = ""
        while True:
            try:
                found = tuple(await asyncio.to_thread(self._pins))
                self._watch.announce(found, self._settings.url or "")
                said = ""
            except (OSError, ValueError) as error:
                if said != (said := str(error)):
                    _log.error("pins_unreadable", reason=said, remedy="put PEM certificates into tls_ca")
            self._check_clock()
            await asyncio.sleep(POLL_SECONDS)

    def _pins(self) -> list[str]:
        found = list(authority_bundle.by_pin(self._roots()))
        if len(found) > join_token.PINS_MAX:
            raise ValueError(f"tls_ca holds {len(found)} authorities, a token names at most {join_token.PINS_MAX}")
        return found

    def _check_clock(self) -> None:
        date, at = self._kube.date
        seconds = refusal.skew(date, at)
        if seconds is None:
            return
        self.skew = seconds
        if abs(seconds) > refusal.SKEW_WARN_SECONDS and self._skew_logged.due("", self._clock()) is not None:
            stops = " and no certificate is signed" if refusal.skew_refusal(seconds) is not None else ""
            _log.warning(
                "clock_skewed",
                reason=refusal.skew_text(seconds) + stops,
                remedy="set the clock (NTP) of both",
            )

    def _may_not_sign(self) -> IdentityRefused | None:
        if self._seconds_left() <= 0 or not self._may_send():
            reason = "this hub may have been replaced: retry"
            return IdentityRefused("signer_unavailable", reason, retry_after=LEASE_RETRY_SECONDS)
        self._check_clock()
        return refusal.skew_refusal(self.skew)

    # ---- results ----------------------------------------------------------------------------------

    def _joined(self, admitted: Admitted, issued: SignedCertificate, peer: str) -> None:
        self._counts.joins["repeated" if admitted.is_repeat else "joined"] += 1
        token, expires = admitted.token, issued.not_after.strftime(RFC_3339)
        facts = {"serial": issued.serial, "token": token.id, "peer": peer, "expires": expires}
        _log.info("identity_joined", node=issued.node, repeated=admitted.is_repeat, replaced=token.replace, **facts)
        if not admitted.is_repeat:
            self._hub.certificates.joined(
                issued.node,
                serial=issued.serial,
                expires=expires,
                token=token.id,
                replaced=token.replace,
                peer=peer,
                now=self._clock(),
            )

    def _refused(self, error: IdentityRefused, node: str, token: str, peer: str) -> None:
        self._counts.joins[error.code] += 1
        now, reason = self._clock(), str(error)
        # A stranger can invent any number of ids: only those of existing tokens get log lines of their own.
        known = token if self._watch.tokens.of(token) is not None else ""
        times = self._told.due((error.code, node, known), now)
        if times is not None:
            facts = {"code": error.code, "reason": reason, "token": token, "peer": peer, "times": times}
            _log.warning("identity_refused", node=node, **facts)
        self._hub.certificates.join_refused(node, code=error.code, reason=reason, token=token, peer=peer, now=now)

    def _turned_away(self, refusal: message.Refuse, peer: str) -> None:
        """A connection refused before it asked for anything: because of its protocol, or because there is no room."""
        self._counts.joins[refusal.code] += 1
        times = self._told.due(refusal.code, self._clock())
        if times is not None:
            _log.warning("identity_refused", node="", code=refusal.code, reason=refusal.reason, peer=peer, times=times)
