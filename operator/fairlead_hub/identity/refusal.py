"""Why a device gets no certificate: the same error for joining, renewal and late renewal."""

from __future__ import annotations

from typing import Final

from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.signer import SignerUnavailable
from fairlead_wire import message
from fairlead_wire.errors import Permanent

UNAVAILABLE_RETRY_SECONDS: Final = 5.0


class IdentityRefused(Permanent):
    """``code`` as on the link; ``retry_after`` is None if asking again changes nothing."""

    def __init__(self, code: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason, code=code)
        self.retry_after = retry_after

    def frame(self) -> message.Refuse:
        return message.Refuse(code=self.code, reason=str(self), retry_after=self.retry_after)


def of(error: CsrRefused | SignerUnavailable | IdentityRefused) -> IdentityRefused:
    """The error as it is reported to the device."""
    match error:
        case IdentityRefused():
            return error
        case CsrRefused():
            return IdentityRefused(error.code, str(error))
    retry = error.retry_after_seconds
    return IdentityRefused(
        "signer_unavailable", str(error), retry_after=UNAVAILABLE_RETRY_SECONDS if retry is None else retry
    )
