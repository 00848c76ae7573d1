"""Late renewal: a device whose certificate expired while it was away proves its key and may get a new certificate.

    late ─challenge─▶ nonce │ prove ▸ chain at its end ▸ signature over nonce, hub, request ▸ request ▸ judge ▸ signed

Nothing is trusted before the signature is verified; refusals before that name no node and write nothing.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_hub.hub import Hub
from fairlead_hub.identity import old_certificate, refusal
from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.late_renewal import Claim
from fairlead_hub.identity.old_certificate import ProofRefused
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import CheckedRequest, SignedCertificate, SignerUnavailable
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.renewal_service import shown
from fairlead_hub.token_bucket import TokenBucket
from fairlead_wire import message
from fairlead_wire.errors import RemoteError
from fairlead_wire.io import logs
from fairlead_wire.link import peer_json
from fairlead_wire.log_limiter import LogLimiter

PROOFS_PER_SECOND: Final = 50.0
"""Each costs about a millisecond; a fleet that was away is back within minutes."""
PROOFS_BURST: Final = 100.0
PROOF_RETRY_SECONDS: Final = 30.0
BUSY_RETRY_SECONDS: Final = 5.0
REMEMBERED_MAX: Final = 10_000
TOLD_SECONDS: Final = 60.0
_proof = msgspec.json.Decoder(message.Proof)
_log = logs.get("hub.identity")


class PendingRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """State that ``challenge`` leaves for ``prove`` in the same conversation."""

    late: message.Late
    nonce: bytes


class LateService:
    """``hub_certificate``: DER of the certificate that devices see; ``roots``: DER of the authorities of nodes."""

    def __init__(
        self,
        hub: Hub,
        issuing: Issuing,
        *,
        hub_certificate: Callable[[], bytes],
        roots: Callable[[], list[bytes]],
        clock: Callable[[], float],
        counts: Counter[str],
    ) -> None:
        self._hub, self._issuing, self._hub_certificate, self._roots = hub, issuing, hub_certificate, roots
        self._clock, self._counts = clock, counts
        self._bucket = TokenBucket(PROOFS_PER_SECOND, PROOFS_BURST)
        self._told = LogLimiter(TOLD_SECONDS)
        self._under_way: set[str] = set()
        self._issued: dict[str, tuple[str, str]] = {}
        """By node: the old certificate and the new key of its last late renewal; oldest first."""

    async def challenge(self, header: message.Late, peer: str) -> tuple[message.Challenge, PendingRenewal]:
        """Raises ``IdentityRefused``."""
        nonce = secrets.token_bytes(message.NONCE_BYTES)
        if not self._hub.view.settings.identity.late_days:
            reason = "late renewal is off here ([identity] late_days = 0): join again with a token"
            raise self._refused(IdentityRefused("late_off", reason, retry_after=PROOF_RETRY_SECONDS), "", peer)
        return message.Challenge(nonce=nonce.hex()), PendingRenewal(late=header, nonce=nonce)

    async def prove(self, begun: PendingRenewal, content: bytes, peer: str) -> SignedCertificate:
        """Raises ``IdentityRefused``."""
        node = ""
        try:
            claim, request = self._proven(begun, content)
            node = claim.node
            self._issuing.require()
            checked = self._issuing.check(node, request)
            issued = await self._decide(claim, checked)
        except (ProofRefused, RemoteError) as error:
            found = IdentityRefused("identity", str(error), retry_after=PROOF_RETRY_SECONDS)
            raise self._refused(found, node, peer) from None
        except (CsrRefused, SignerUnavailable, IdentityRefused) as error:
            raise self._refused(refusal.of(error), node, peer) from None
        facts = shown(issued)
        self._counts["late"] += 1
        _log.info("identity_late", node=node, serial=facts.serial, expires=facts.expires, peer=peer)
        self._hub.certificates.renewed_late(node, facts, self._clock())
        return issued

    async def _decide(self, claim: Claim, request: CheckedRequest) -> SignedCertificate:
        node, by = claim.node, (claim.serial, request.key_sha256)
        first = self._issued.get(node, by)
        if node in self._under_way:
            raise IdentityRefused("too_many", "this node's certificate is being signed", retry_after=BUSY_RETRY_SECONDS)
        given_to = first[1] if first[0] == by[0] and first != by else ""
        refused = self._hub.certificates.judge_late(claim, self._clock(), given_to=given_to)
        if refused is not None:
            raise IdentityRefused(refused.code, refused.reason, retry_after=refused.retry_after)
        self._under_way.add(node)
        try:
            issued = await self._issuing.issue(
                node, request, revoked_before=self._hub.certificates.revoked_before(node)
            )
        finally:
            self._under_way.discard(node)
        # A lost answer is sent again; a request with another key would be a second machine with this identity.
        self._issued[node] = by
        while len(self._issued) > REMEMBERED_MAX:
            del self._issued[next(iter(self._issued))]
        return issued

    def _proven(self, begun: PendingRenewal, content: bytes) -> tuple[Claim, bytes]:
        """Raises ``RemoteError`` or ``IdentityRefused``."""
        now = self._clock()
        if not self._bucket.has_one(now):
            wait = max(1.0, self._bucket.next_at(now) - now)
            raise IdentityRefused("too_many", "too many devices are renewing at once: try again", retry_after=wait)
        self._bucket.take(now)
        proof = peer_json.decode(_proof, content)
        try:
            request = base64.b64decode(proof.request, validate=True)
            signature = base64.b64decode(proof.signature, validate=True)
        except (binascii.Error, ValueError):
            raise ProofRefused("the request or the signature is not base64") from None
        old = old_certificate.verify(proof.certificates, self._roots())
        if old.name != begun.late.node:
            raise ProofRefused(f"the certificate is {old.name}'s, not {begun.late.node}'s")
        signed = message.late_proof(begun.nonce, hub_certificate=self._hub_certificate(), request=request)
        old_certificate.verify_signature(old, signature, signed)
        claim = Claim(
            node=old.name,
            serial=old.serial,
            not_before=old.not_before,
            not_after=old.not_after,
            store_epoch=begun.late.store_epoch,
        )
        return claim, request

    def _refused(self, error: IdentityRefused, node: str, peer: str) -> IdentityRefused:
        self._counts[error.code] += 1
        times = self._told.due((error.code, node), self._clock())
        if times is not None:
            event = "identity_held" if error.code in ("held", "not_newest") else "late_renewal_refused"
            _log.warning(event, node=node, code=error.code, reason=str(error), peer=peer, times=times)
        return error
