"""The certificate ended while the node was away: a new one for the proof that its key is still here.

    edge ─late(store epoch of the last session)─▶ hub ─challenge(nonce)─▶ edge
         ─prove(old certificate, new request, signature by the old key)─▶ hub ─issued | refuse─▶ edge

Over a connection that shows no certificate: the hub's is checked against our authorities as always, and the signature
names it, so that nothing between can use it.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from fairlead_edge.io.identity import keys
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError
from fairlead_edge.io.identity.renewer import Renewer
from fairlead_edge.objects.sync import effects
from fairlead_wire import message
from fairlead_wire.errors import Malformed, RemoteError
from fairlead_wire.identity.join_token import ALPN
from fairlead_wire.io import logs
from fairlead_wire.io.handshake import ClientContext
from fairlead_wire.io.tls import TlsFilesError
from fairlead_wire.link import codec

SECONDS_MAX: Final = 120.0
"""For the whole conversation; a signer of the cluster's may take its time."""
RETRY_SECONDS: Final = 30.0

_log = logs.get("edge.identity")


def bare_context(files: IdentityFiles, *, earliest: float | None = None) -> ssl.SSLContext:
    """Checks the hub and shows nothing.  ``earliest``: the clock is not believed.  Raises ``TlsFilesError``."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cafile=str(files.authorities))
    except (OSError, ssl.SSLError) as error:
        raise TlsFilesError(f"{files.authorities}: {error}") from None
    context.distrust_clock(earliest)
    return context


class LateRenewal:
    """``dial`` opens a connection with this context."""

    def __init__(
        self,
        files: IdentityFiles,
        renewer: Renewer,
        *,
        node: str,
        agent: str,
        dial: Callable[[ssl.SSLContext], Awaitable[ClientConnection]],
    ) -> None:
        self._files, self._renewer, self._node, self._agent, self._dial = files, renewer, node, agent, dial

    async def attempt(self, *, store_epoch: int, fence: int, earliest: float | None) -> effects.Close:
        """One conversation: its outcome, and when to dial again.  Raises what ``dial`` raises."""
        try:
            connection = await self._dial(bare_context(self._files, earliest=earliest))
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    return await self._converse(connection, store_epoch, fence)
            finally:
                connection.transport.abort()
        except (ConnectionClosed, TimeoutError) as error:
            return _end("late_unanswered", f"the hub did not answer: {type(error).__name__}: {error}")
        except RemoteError as error:
            return _end("protocol", str(error))
        except (IdentityFilesError, TlsFilesError, keys.KeyMakerFailed) as error:
            return _end("local", str(error))

    async def _converse(self, connection: ClientConnection, store_epoch: int, fence: int) -> effects.Close:
        late = message.Late(node=self._node, agent=self._agent, store_epoch=store_epoch, fence=fence)
        challenge, _ = await _ask(connection, late)
        if isinstance(challenge, message.Refuse):
            return self._refused(challenge)
        if not isinstance(challenge, message.Challenge):
            raise Malformed("a challenge was expected")
        pending = await self._renewer.pending()
        proof = await self._proof(challenge, pending.request, _hub_certificate(connection))
        issued, content = await _ask(connection, message.Prove(), msgspec.json.encode(proof))
        if isinstance(issued, message.Refuse):
            return self._refused(issued)
        if not isinstance(issued, message.Issued):
            raise Malformed("a certificate was expected")
        await self._renewer.install(issued, content, pending)
        self._renewer.renewed_late()
        _log.info("identity_renewed_late", node=self._node, expires=issued.expires)
        return effects.Close(code="renewed_late", reason="a new certificate was issued after the old one had ended")

    async def _proof(self, challenge: message.Challenge, request: bytes, hub_certificate: bytes) -> message.Proof:
        pair = self._files.current()
        if pair is None:
            raise IdentityFilesError(f"{self._files.link}: there is no certificate: join again with a token")
        try:
            content = message.late_proof(
                bytes.fromhex(challenge.nonce), hub_certificate=hub_certificate, request=request
            )
        except ValueError as error:
            raise Malformed(str(error)) from None
        signature = await keys.sign(self._files.key(pair), content)
        return message.Proof(
            certificates=self._files.chain(pair).decode("ascii"),
            request=base64.b64encode(request).decode(),
            signature=base64.b64encode(signature).decode(),
        )

    def _refused(self, refuse: message.Refuse) -> effects.Close:
        self._renewer.refused_late(refuse.code)
        if refuse.code.startswith("csr_"):
            self._files.drop_pending()
        retry_after = RETRY_SECONDS if refuse.retry_after is None else refuse.retry_after
        # Also where the hub says that it is for good: a person may approve it, or put another certificate in place.
        return effects.Close(code=refuse.code, reason=refuse.reason, retry_after=retry_after)


async def _ask(
    connection: ClientConnection, header: message.FromDevice, content: bytes = b""
) -> tuple[message.ToDevice, bytes]:
    await connection.send(codec.encode(header, content))
    return codec.decode_to_device(await connection.recv(decode=False))


def _hub_certificate(connection: ClientConnection) -> bytes:
    side = connection.transport.get_extra_info("ssl_object")
    shown: bytes | None = side.getpeercert(binary_form=True) if side is not None else None
    if shown is None:
        raise Malformed("the hub shows no certificate")
    return shown


def _end(code: str, reason: str) -> effects.Close:
    return effects.Close(code=code, reason=f"late renewal: {reason}", retry_after=RETRY_SECONDS)
