"""Admits a device, step by step: decide, record the use, revoke the old identity, sign, answer.

    limits ▸ secret ▸ name ▸ request ▸ judge ─▶ 1 the use, into the JoinToken at the version we know
                                                2 with ``replace``: EdgeNode.spec.revoked
                                                3 sign ─▶ 4 answer

The use is recorded before anything is signed, with the version that was judged: of two hubs, or of a deposed hub that
has not noticed yet, only one succeeds.  The record determines the certificate, so if a hub stops after any of the
steps, the device asks again and gets the certificate it would have got.  Without the API server no device joins.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any, Final

from fairlead_hub.identity import join_tokens, joining, refusal, revocation
from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.join_tokens import JoinTokenObject
from fairlead_hub.identity.joining import Admitted, JoinLimits
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import CheckedRequest, SignedCertificate, SignerUnavailable
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_hub.io.identity import join_token_watch
from fairlead_hub.io.identity.issuing import Issuing, new_serial
from fairlead_hub.io.identity.join_token_watch import JoinTokenWatch
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.identity import join_token
from fairlead_wire.objects import api_group

EDGE_NODES: Final = f"{api_group.ROOT}/edgenodes"
CONFLICTS_MAX: Final = 5
"""Versions tried in one admission: a token with many uses changes while many devices join."""


class JoinService:
    """``known`` returns what the hub knows of a name; ``joined`` and ``refused`` receive the outcome of attempts."""

    def __init__(
        self,
        kube: Kube,
        watch: JoinTokenWatch,
        issuing: Issuing,
        *,
        known: Callable[[str], KnownIdentity],
        clock: Callable[[], float],
        seconds_left: Callable[[], float],
        joined: Callable[[Admitted, SignedCertificate, str], None],
        refused: Callable[[IdentityRefused, str, str, str], None],
    ) -> None:
        self._kube, self._watch, self._issuing = kube, watch, issuing
        self._known, self._clock, self._seconds_left = known, clock, seconds_left
        self._joined, self._refused = joined, refused
        self._limits = JoinLimits()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def join(self, header: message.Join, content: bytes, peer: str) -> SignedCertificate:
        """Raises ``IdentityRefused``."""
        node = ""
        try:
            token = self._authenticated(header)
            node = joining.node_of(token, header.node)
            request = self._issuing.check(node, content)
            self._issuing.require()
            # Lock the name first: two tokens must not admit two devices under one name.
            async with self._lock(f"node/{node}"):
                async with self._lock(f"token/{token.id}"):
                    admitted = await self._admit(token.id, node, request)
                # A signer may take half a minute: others may join with the same token meanwhile.
                issued = await self._finish(admitted, node, request)
        except (CsrRefused, SignerUnavailable, IdentityRefused) as error:
            found = refusal.of(error)
            self._refused(found, node, header.token_id if join_token.is_id(header.token_id) else "", peer)
            raise found from None
        self._joined(admitted, issued, peer)
        return issued

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def _authenticated(self, header: message.Join) -> JoinTokenObject:
        """From memory only: a guess must cost the API server nothing."""
        now = self._clock()
        token = self._watch.tokens.of(header.token_id)
        if wait := self._limits.take(now, is_known=token is not None):
            raise IdentityRefused("too_many", "too many devices join at once: try again", retry_after=max(1.0, wait))
        if not self._watch.tokens.listed:
            retry = joining.STARTING_RETRY_SECONDS
            raise IdentityRefused("starting", "the hub has not read the JoinTokens yet", retry_after=retry)
        is_right = joining.check_secret(token, header.secret)
        if token is not None and (wait := self._limits.locked(token.id, now)):
            raise IdentityRefused("too_many", "wrong secrets were tried for this token: wait", retry_after=wait)
        if token is None or not is_right:
            if token is not None:
                self._limits.failed(token.id, now)
            reason = "unknown token. It may have been deleted, or not copied completely"
            raise IdentityRefused("token_unknown", reason)
        self._limits.passed(token.id)
        return token

    async def _admit(self, id: str, node: str, request: CheckedRequest) -> Admitted:
        for _ in range(CONFLICTS_MAX):
            admitted = self._judge(id, node, request)
            if admitted.is_repeat or await self._write_use(admitted):
                return admitted
        raise IdentityRefused("too_many", "many devices join by this token at once: try again", retry_after=2.0)

    async def _finish(self, admitted: Admitted, node: str, request: CheckedRequest) -> SignedCertificate:
        if admitted.revoke_before:
            await self._revoke(admitted)
        use = admitted.use
        return await self._issuing.sign(
            node,
            request,
            serial=int(use.serial, 16),
            not_before=WallClock.utc(use.not_before),
            not_after=WallClock.utc(use.not_after),
            revoked_before=WallClock.utc(use.not_before) if admitted.token.replace else None,
        )

    def _judge(self, id: str, node: str, request: CheckedRequest) -> Admitted:
        tokens = self._watch.tokens
        token = tokens.of(id)
        if token is None:
            raise IdentityRefused("token_unknown", "the token was deleted")
        return joining.judge(
            token,
            node,
            request,
            known=self._known(node),
            uses=tokens.uses_of(node),
            key_owner=tokens.key_owner(request.key_sha256, node),
            now=self._issuing.wall(),
            days=self._issuing.days,
            authority=self._issuing.signer.authority,
            serial=new_serial,
        )

    async def _write_use(self, admitted: Admitted) -> bool:
        """Record the use.

        Returns False if the token changed since, perhaps by this very write: judge the new version.
        """
        token = admitted.token
        uses = (*token.uses, admitted.use)
        status = {"uses": [use.document() for use in uses], "usedBy": join_tokens.names(uses)}
        change = {"metadata": {"resourceVersion": token.version}, "status": status}
        try:
            answer = await self._patch(f"{join_token_watch.ROOT}/{token.id}/status", change)
            self._watch.put(join_token_watch.read(answer))
        except ApiRefused as error:
            if error.status == 404:
                raise IdentityRefused("token_unknown", "the token was deleted") from None
            if error.status != 409:
                reason = f"the use cannot be recorded ({error}): the hub's account needs patch on jointokens/status"
                raise SignerUnavailable(reason) from None
            if not await self._watch.newer(token.id, token.version):
                raise SignerUnavailable("the token changes, and the hub does not see how: try again") from None
            return False
        except (ApiUnavailable, Malformed) as error:
            # It may have been written.  Then the same request finds it and is answered from it.
            raise SignerUnavailable(f"no device can join without the API server: {error}") from None
        return True

    async def _revoke(self, admitted: Admitted) -> None:
        """Revoke certificates of the name from before this use; creates the EdgeNode if there is none."""
        node = admitted.use.node
        revoked = {
            "before": WallClock.text_of(admitted.revoke_before),
            "reason": revocation.replaced(admitted.token.id),
        }
        change: dict[str, Any] = {"spec": {"revoked": revoked}}
        try:
            try:
                await self._patch(f"{EDGE_NODES}/{node}", change)
            except ApiRefused as error:
                if error.status != 404:
                    raise
                head = {"apiVersion": api_group.API_VERSION, "kind": "EdgeNode", "metadata": {"name": node}}
                await self._kube.request("POST", EDGE_NODES, {**head, **change}, seconds=self._seconds_left())
        except ApiRefused as error:
            reason = f"the old identity cannot be revoked ({error}): the hub's account needs patch on edgenodes"
            raise SignerUnavailable(reason) from None
        except ApiUnavailable as error:
            raise SignerUnavailable(f"the old identity is not revoked yet: {error}") from None

    async def _patch(self, path: str, change: dict[str, Any]) -> bytes:
        return await self._kube.request("PATCH", path, change, content_type=MERGE_PATCH, seconds=self._seconds_left())
