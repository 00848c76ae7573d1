"""Renews the node's certificate: in an open session, or, once it has expired, by a proof of possession.

    welcome ─▶ due ─▶ key and request (child process) ─renew─▶ hub ─issued─▶ file, fsync, link swapped
                          └─ kept until its certificate is in use                  └─ next dial
    next dial ─┬─ session opened ─▶ remove the old pair
               └─ refused ────────▶ roll back to the old pair

    edge ─late(store epoch of the last session)─▶ hub ─challenge(nonce)─▶ edge
         ─prove(old certificate, new request, signature by the old key)─▶ hub ─issued | refuse─▶ edge

Only for files made by ``fairlead edge join``; other files belong to other programs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from fairlead_edge.errors import LinkDown
from fairlead_edge.identity.certificate import CertificateRenewal
from fairlead_edge.io.identity import keys
from fairlead_edge.io.identity.identity_files import BadPair, IdentityFiles, IdentityFilesError, Pending
from fairlead_edge.objects import session_events
from fairlead_wire import errors, message
from fairlead_wire.errors import Malformed, RemoteError
from fairlead_wire.identity.certificate import Certificate, day
from fairlead_wire.identity.join_token import ALPN
from fairlead_wire.io import logs
from fairlead_wire.io.handshake import ClientContext
from fairlead_wire.io.tls import TlsFilesError
from fairlead_wire.link import codec, peer_json

Ask = Callable[[bytes], Awaitable[tuple[message.Issued | message.Nack, bytes]]]
"""Sends a request (DER) to the hub; returns its answer and the content.  Raises ``LinkDown``."""
ANSWER_SECONDS_MAX: Final = 120.0
"""How long to wait for an answer, because a signer may be slow; also the limit for a whole late renewal."""
LATE_RETRY_SECONDS: Final = 30.0

_log = logs.get("edge.identity")
_certificates = msgspec.json.Decoder(message.IssuedCertificates)


class Renewer:
    """Renews the certificate in open sessions.  ``random`` draws the jitter of pauses."""

    def __init__(self, files: IdentityFiles, *, node: str, ask: Ask, random: Random) -> None:
        self._files, self._node, self._ask, self._random = files, node, ask, random
        self._changed = asyncio.Event()
        self.state = CertificateRenewal()
        self.counters: Counter[str] = Counter()
        """Events since the start: renewed, late, rolled back, failures by code."""
        self._refused: set[Path] = set()
        """Pairs that the hub refused since the last session."""
        self._installing = False
        """A pair is being written.  It is not in use yet, so ``confirm`` would remove it."""

    def seconds_left(self) -> float | None:
        """Seconds until the next certificate is requested; None if none is due."""
        return self.state.seconds_left(_now())

    # ---- events of the link ----------------------------------------------------------------------

    def opened(self, welcome: message.Welcome, shown: Certificate | None) -> None:
        """A session was opened with the certificate ``shown``."""
        self.state = self.state.welcomed(welcome.renew_after_seconds, _now())
        self._refused.clear()
        self._changed.set()
        with self._logged("old_pair_kept"):
            current = self._files.current()
            if current is not None and current.certificate == shown and not self._installing:
                self._files.confirm()

    def hasten(self, after: float) -> None:
        """Another authority signs now: renew in ``after`` seconds at the latest."""
        self.state = self.state.hastened(after, _now())
        self._changed.set()

    def ended(self) -> None:
        """The session has ended."""
        self.state = self.state.ended()
        self._changed.set()

    def refused(self, shown: Certificate | None, why: str, *, has_ended: bool = False) -> bool:
        """The hub's TLS refused ``shown``.  Rolls back to another pair if one may be accepted; True if it did.

        ``has_ended``: it was refused because it has expired.  Then only a pair that expires later and was not refused
        is tried; without one, the node needs a late renewal.
        """
        with self._logged("old_pair_unusable"):
            current, others = self._files.current(), self._files.others()
            if current is None or current.certificate != shown:
                return False
            if has_ended:
                ends, refused = shown.not_after, self._refused
                others = [each for each in others if each.certificate.not_after > ends and each.path not in refused]
            if not others:
                return False
            before = others[0]
            self._files.use(before)
            self._refused.add(current.path)
            self.counters["taken_back"] += 1
            reason = f"the hub refused the renewed certificate ({why}); the previous one is in use again"
            self.state = self.state.failed("unusable", reason, _now(), self._random.random())
            _log.error("certificate_taken_back", serial=before.certificate.serial, reason=reason)
            return True
        return False

    def renewed_late(self) -> None:
        """The certificate was renewed outside of a session."""
        self.state = CertificateRenewal()
        self.counters["late"] += 1

    def refused_late(self, code: str) -> None:
        """The hub refused a late renewal, permanently or until a person approves it."""
        self.counters[f"late_refused_{code}"[: message.NAME_CHARS_MAX]] += 1

    # ---- renewing --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew when it is due; runs until cancelled."""
        while True:
            self._changed.clear()
            left = self.state.seconds_left(_now())
            if left == 0.0:
                await self._renew()
                continue
            with contextlib.suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the event.
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def _renew(self) -> None:
        self.state = self.state.asking()
        try:
            pending = await self.pending()
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer, content = await self._ask(pending.request)
            if isinstance(answer, message.Nack):
                self._failed(answer.code, answer.reason, answer.retry_after)
                return
            await self.install(answer, content, pending)
        except LinkDown:
            # ``ended`` is called, too; the next session repeats the same request.
            self.state = self.state.ended()
        except TimeoutError:
            self._failed("no_answer", f"the hub did not answer within {ANSWER_SECONDS_MAX:g} s")
        except RemoteError as error:
            self._failed("malformed", str(error))
        except (IdentityFilesError, keys.KeyMakerFailed) as error:
            self._failed("local", str(error))
        else:
            self.state = self.state.issued(answer.renew_after_seconds, _now())
            self.counters["renewed"] += 1
            _log.info("identity_renewed", node=self._node, expires=answer.expires)

    async def pending(self) -> Pending:
        """The pending key and request; made now if there are none."""
        kept = await asyncio.to_thread(self._files.pending)
        if kept is not None:
            return kept
        made = await keys.make()
        pending = Pending(key=made.key, request=made.request)
        await asyncio.to_thread(self._files.keep_pending, pending)
        return pending

    async def install(self, issued: message.Issued, content: bytes, pending: Pending) -> None:
        """Write the issued certificate and use it from the next dial on.

        Raises ``IdentityFilesError`` or ``RemoteError``; then the next dial uses the old one.
        """
        self._installing = True
        try:
            await asyncio.to_thread(self._install, content, pending)
        finally:
            self._installing = False

    def _install(self, content: bytes, pending: Pending) -> None:
        certificates = peer_json.decode(_certificates, content)
        try:
            pair = self._files.add(pending.key, certificates.certificates.encode())
        except BadPair:
            self._files.drop_pending()  # the same request would get the same answer
            raise
        if pair.certificate.name != self._node:
            raise IdentityFilesError(
                f"the hub issued a certificate for {pair.certificate.name or 'no name'}, not {self._node}"
            )
        if certificates.authorities:
            self._files.write_authorities(certificates.authorities.encode())
        if certificates.issuers and self._files.write_issuers(certificates.issuers.encode()):
            remedy = "copy it to where programs that connect to this node expect it (edge-ca.crt beside edge.toml)"
            _log.warning("issuers_changed", file=str(self._files.issuers), remedy=remedy)
        self._files.use(pair)
        self._files.drop_pending()
        _log.info("certificate_installed", serial=pair.certificate.serial, until=day(pair.certificate.not_after))

    def _failed(self, code: str, reason: str, retry_after: float | None = None) -> None:
        self.state = self.state.failed(code, reason, _now(), self._random.random(), retry_after=retry_after)
        self.counters[f"failed_{code}"[: message.NAME_CHARS_MAX]] += 1
        left = self.state.seconds_left(_now())
        _log.warning("renewal_failed", code=code, reason=reason, failures=self.state.failures, retry_after=left)

    @contextlib.contextmanager
    def _logged(self, event: str) -> Iterator[None]:
        try:
            yield
        except IdentityFilesError as error:
            _log.error(event, reason=str(error), remedy="check the disk and the folder's owner")


def _now() -> float:
    return asyncio.get_running_loop().time()


def bare_context(files: IdentityFiles, *, earliest: float | None = None) -> ssl.SSLContext:
    """A context that verifies the hub and presents no certificate.  Raises ``TlsFilesError``.

    ``earliest``: the lower bound of the current time if the clock is not trusted.
    """
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cafile=str(files.authorities))
    except (OSError, ssl.SSLError) as error:
        raise TlsFilesError(f"{files.authorities}: {errors.plain(error)}") from None
    context.distrust_clock(earliest)
    return context


class LateRenewal:
    """Renews a certificate that expired while the node was away, by a proof that the node still has its key.

    ``dial`` opens a connection with a context that presents no certificate.  The hub's certificate is verified as
    always, and the signed proof contains it, so that no machine in between can reuse the proof.
    """

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

    async def attempt(self, *, store_epoch: int, fence: int, earliest: float | None) -> session_events.Close:
        """Try once; returns the outcome and when to dial again.  Raises the errors of ``dial``."""
        try:
            connection = await self._dial(bare_context(self._files, earliest=earliest))
            try:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    return await self._converse(connection, store_epoch, fence)
            finally:
                connection.transport.abort()
        except (ConnectionClosed, TimeoutError) as error:
            return _end("late_unanswered", f"the hub did not answer: {errors.plain(error)}")
        except RemoteError as error:
            return _end("protocol", str(error))
        except (IdentityFilesError, TlsFilesError, keys.KeyMakerFailed) as error:
            return _end("local", str(error))

    async def _converse(self, connection: ClientConnection, store_epoch: int, fence: int) -> session_events.Close:
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
        return session_events.Close(
            code="renewed_late", reason="a new certificate was issued after the old one had expired"
        )

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

    def _refused(self, refuse: message.Refuse) -> session_events.Close:
        self._renewer.refused_late(refuse.code)
        if refuse.code.startswith("csr_"):
            self._files.drop_pending()
        retry_after = LATE_RETRY_SECONDS if refuse.retry_after is None else refuse.retry_after
        # Retry a permanent refusal, too: a person may approve the renewal, or install another certificate.
        return session_events.Close(code=refuse.code, reason=refuse.reason, retry_after=retry_after)


async def _ask(
    connection: ClientConnection, header: message.FromDevice, content: bytes = b""
) -> tuple[message.ToDevice, bytes]:
    await connection.send(codec.encode(header, content))
    return codec.decode_to_device(await connection.recv(decode=False))


def _hub_certificate(connection: ClientConnection) -> bytes:
    side = connection.transport.get_extra_info("ssl_object")
    shown: bytes | None = side.getpeercert(binary_form=True) if side is not None else None
    if shown is None:
        raise Malformed("the hub presented no certificate")
    return shown


def _end(code: str, reason: str) -> session_events.Close:
    return session_events.Close(code=code, reason=f"late renewal: {reason}", retry_after=LATE_RETRY_SECONDS)
