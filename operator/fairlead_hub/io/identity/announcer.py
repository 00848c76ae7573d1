"""Reads the authorities nodes should trust (``tls_ca`` and our own certificate) and announces changes to the core.

tls_ca, tls_cert ─ every ``POLL_SECONDS`` ─▶ readable? is our certificate signed by one of them? ─▶ announced
                                          └─ no: logged, nodes keep what they have
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_hub.identity.signer import AuthorityBundle
from fairlead_wire.identity import authority_bundle
from fairlead_wire.io import logs

POLL_SECONDS: Final = 5.0
_log = logs.get("hub.identity")


class Announcer:
    """``roots`` and ``own`` read files (PEM); ``announce`` returns the number of nodes it is sent to."""

    def __init__(
        self, *, roots: Callable[[], bytes], own: Callable[[], bytes], announce: Callable[[AuthorityBundle], int]
    ) -> None:
        self._roots, self._own, self._announce = roots, own, announce
        self._announced: tuple[bytes, bytes] | None = None
        self._reported = ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(POLL_SECONDS)

    async def check(self) -> None:
        """Read both files once, and announce them if they have changed."""
        try:
            found = await asyncio.to_thread(lambda: (self._roots(), self._own()))
            if found == self._announced:
                return
            made = await asyncio.to_thread(read, *found)
        except (OSError, ValueError) as error:
            if self._reported != (reason := str(error)):
                remedy = "put the authority of tls_cert into tls_ca; nodes keep what they have until then"
                _log.error("authorities_unfit", reason=reason, remedy=remedy)
            self._reported = reason
            return
        self._announced, self._reported = found, ""
        _log.info("authorities_announced", digest=made.digest, nodes=self._announce(made))


def read(roots: bytes, own: bytes) -> AuthorityBundle:
    """Raises ``ValueError`` if nodes that trust ``roots`` would not trust us."""
    try:
        digest = authority_bundle.digest(roots)
    except ValueError as error:
        raise ValueError(f"tls_ca {error}") from None
    if len(own) > authority_bundle.CHAIN_BYTES_MAX:
        raise ValueError(
            f"tls_cert is larger than {authority_bundle.CHAIN_BYTES_MAX} bytes: tls_ca cannot be announced to nodes"
        )
    if not authority_bundle.reaches(own, roots):
        raise ValueError("tls_cert is not signed by any authority in tls_ca: nodes that trust these would refuse us")
    return AuthorityBundle(digest=digest, authorities=roots, certificates=own.decode("ascii"))
