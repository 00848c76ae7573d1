"""Signs for devices that may have a certificate: the last checks, then the signer.

    may this hub sign now (Lease, clock)? ▸ Template ▸ Signer ─▶ Issued

Joining, renewal and late renewal decide who may have a certificate; all of them end here.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable

from fairlead_hub.identity import csr
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import (
    SERIAL_BITS,
    CertificateTemplate,
    CheckedRequest,
    SignedCertificate,
    Signer,
    validity,
)
from fairlead_wire.identity import node_names


def new_serial() -> int:
    """At least 1, and random, so that a certificate cannot be predicted."""
    return secrets.randbits(SERIAL_BITS) or 1


class Issuing:
    """``refusal`` returns why this hub may not sign now, or None; called before a decision and before signing."""

    def __init__(
        self,
        signer: Signer,
        *,
        installation: str,
        days: float,
        wall: Callable[[], float],
        refusal: Callable[[], IdentityRefused | None],
    ) -> None:
        self.signer, self.days, self.wall = signer, days, wall
        self._installation, self._refusal = installation, refusal
        self.signed = 0

    def check(self, node: str, der: bytes) -> CheckedRequest:
        """Check a request.  Raises ``CsrRefused``."""
        return csr.check(der, node_names.of(node, self._installation), has_names=self.signer.takes_names)

    def require(self) -> None:
        """Raises ``IdentityRefused`` if this hub may not sign now."""
        if (found := self._refusal()) is not None:
            raise found

    async def issue(
        self, node: str, request: CheckedRequest, *, revoked_before: datetime.datetime | None = None
    ) -> SignedCertificate:
        """Issue a new certificate, valid from now.  Raises ``SignerUnavailable``, ``IdentityRefused``."""
        now = datetime.datetime.fromtimestamp(self.wall(), datetime.UTC)
        authority = self.signer.authority
        since, until = validity(now, days=self.days, authority=authority, revoked_before=revoked_before)
        return await self.sign(
            node, request, serial=new_serial(), not_before=since, not_after=until, revoked_before=revoked_before
        )

    async def sign(
        self,
        node: str,
        request: CheckedRequest,
        *,
        serial: int,
        not_before: datetime.datetime,
        not_after: datetime.datetime,
        revoked_before: datetime.datetime | None = None,
    ) -> SignedCertificate:
        """Sign the certificate that was decided on.  Raises ``SignerUnavailable``, ``IdentityRefused``."""
        self.require()
        names = node_names.of(node, self._installation)
        issued = await self.signer.sign(
            CertificateTemplate(
                names=names,
                request=request,
                serial=serial,
                not_before=not_before,
                not_after=not_after,
                revoked_before=revoked_before,
            )
        )
        self.require()
        self.signed += 1
        return issued
