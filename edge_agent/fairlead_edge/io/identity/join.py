"""``fairlead edge join``: a device obtains an identity with a join token.

    settings read, folder locked ▸ connection 1, unverified: authorities, compared with the token's pin ▸ closed
    ▸ connection 2, verified against the pinned authority: token and certificate request ▸ issued
    ▸ authorities, pair, link, settings file, CA file of local programs ▸ the pending request is dropped

Everything that the device can check is checked before the token is sent, and room for the answer is reserved.  The key
and its request are written to disk first: if the answer is lost or the command is killed, the same command sends the
same request and gets the same certificate, or finishes with the answer it had already received.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import msgspec

from fairlead_edge.identity import clock
from fairlead_edge.io.identity import device, join_client, keys
from fairlead_edge.io.identity.device import CannotConfigure, CannotJoin, DeviceSettings, locked, name_of, owner_of
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError, Owner, Pair, Pending
from fairlead_edge.io.identity.join_client import HubUnreachable, IssuedCertificate, RefusedByHub
from fairlead_edge.io.outbox import store_clock
from fairlead_wire import distribution, durations
from fairlead_wire.backoff import Backoff
from fairlead_wire.identity import authority_bundle, certificate
from fairlead_wire.identity.join_token import JoinToken

RETRY_SECONDS_MAX: Final = 60.0
"""How long to retry if the hub asks to come back later (too many devices join at once, or it is starting)."""
BACKOFF: Final = Backoff(0.5, 5.0)
_ELSEWHERE: Final = "If this device joined before with another --config, its key is beside that file: use that --config"
_AGAIN: Final = "To let a device join again, make a new token: fairlead token create --node NAME --replace"
REMEDIES: Final = {
    "token_used": f"{_ELSEWHERE}. {_AGAIN}",
    "name_taken": _ELSEWHERE,
    "csr_key_reused": "The key has been deleted on this device: run the same command again to make a new one",
}
"""What the device can add to the hub's reason, by error code."""
SKEW_SECONDS: Final = 60.0
"""Larger differences between the two clocks are reported."""
MISTYPED_DIGITS_MAX: Final = 4
"""Pins that differ in at most so many of their 64 digits are taken for the same pin, mistyped."""
NOTHING_SENT: Final = "Nothing was sent"
NODE_PLACEHOLDER: Final = "node"
"""The name for a dry run of writing the settings, before the hub has assigned one."""

Say = Callable[[str, str], None]
Asked = TypeVar("Asked")


class JoinOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line.  ``node`` "": the name in the settings file, else in the token."""

    url: str
    token: JoinToken
    config: Path
    node: str = ""
    user: str = ""
    force: bool = False


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The result of joining.  ``owner``: the user that must run the agent; "": the one that ran ``join``."""

    node: str
    expires: str
    config: Path
    owner: str = ""


async def join(wanted: JoinOptions, environ: Mapping[str, str], say: Say) -> Joined:
    """Obtain an identity and write the settings.  ``say(what, text)`` reports each step.

    Raises a ``FairleadError``, mostly ``CannotJoin`` or ``RefusedByHub``.
    """
    settings = DeviceSettings(wanted.config, environ)
    _refuse_missing_folder(settings, say)
    node = _node(wanted, settings)
    owner = owner_of(settings.data_dir, wanted.user)
    with locked(settings.data_dir, owner):
        return await _Device(wanted, settings, node, owner, say).join()


async def stage(wanted: JoinOptions, settings: DeviceSettings, files: IdentityFiles, say: Say) -> Pair:
    """Obtain an identity of another hub in ``files``; nothing in use is changed.  Raises the errors of ``join``."""
    files.make_folder()
    return await _Device(wanted, settings, wanted.node, None, say, files).issue()


class _Retryable(CannotJoin):
    """Joining may succeed in a moment."""

    retry_after = 0.0


class _Device:
    """One run of ``join`` on one device."""

    def __init__(
        self,
        wanted: JoinOptions,
        settings: DeviceSettings,
        node: str,
        owner: Owner | None,
        say: Say,
        files: IdentityFiles | None = None,
    ) -> None:
        self._wanted = wanted
        self._settings = settings
        self._node = node
        self._owner = owner
        self._say = say
        self._agent = distribution.version()
        self._files = files or IdentityFiles.of(settings.data_dir, owner=owner)

    async def join(self) -> Joined:
        try:
            self._files.make_folder()
        except IdentityFilesError as error:
            raise CannotJoin(f"{error}. {NOTHING_SENT}") from None
        self._settings.write(self._keys(self._node or NODE_PLACEHOLDER), owner=self._owner, dry=True)
        return self._finish(await self.issue())

    async def issue(self) -> Pair:
        """A pair for which the hub has issued the certificate, now or before."""
        if (issued := self._issued_before()) is not None:
            self._say("certificate", f"was already issued to {issued.certificate.name}; completing the files")
            return issued
        self._refuse_second_identity()
        with self._reserved():
            self._say("clock here", certificate.day(_now()))
            context = _trusting(await self._with_retries(self._ask_authorities))
            pending = await self._pending()
            answer = await self._with_retries(lambda: self._ask_certificate(context, pending))
        return self._keep(answer, pending)

    # ---- what is on disk ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reserved(self) -> Iterator[None]:
        """Reserve room for the answer before the request, because a token can be used only once."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._files.reserved())
            except IdentityFilesError as error:
                raise CannotJoin(f"{error}. {NOTHING_SENT}") from None
            yield

    def _purpose(self) -> str:
        return f"join {self._wanted.token.id} {self._node}".strip()

    def _is_ours(self, pending: Pending) -> bool:
        """Whether it was made for this token and this name, or no name: the settings may have got one since."""
        return pending.purpose in (self._purpose(), f"join {self._wanted.token.id}")

    def _issued_before(self) -> Pair | None:
        """The pair of the pending key, if an earlier run was killed after the answer had arrived."""
        pending = self._files.pending()
        if pending is None or not self._is_ours(pending):
            return None
        return next((pair for pair in self._files.pairs() if self._files.key(pair) == pending.key), None)

    def _refuse_second_identity(self) -> None:
        try:
            current = self._files.current()
        except IdentityFilesError as error:
            if not self._wanted.force:
                raise CannotJoin(f"{error}; --force replaces it") from None
            return
        if current is not None and not self._wanted.force:
            own = current.certificate
            raise CannotJoin(
                f"this device has already joined as {own.name} (until {certificate.day(own.not_after)}), and nothing"
                " was sent; to join again, use --force and a new token (a used one is refused as token_used), made with"
                f" fairlead token create --node {own.name} --replace"
            )

    async def _pending(self) -> Pending:
        """The key and request of an earlier attempt with this token, or new ones; on disk before they are sent."""
        found = self._files.pending()
        if found is not None and self._is_ours(found):
            self._say("key", "reusing the key of an earlier attempt that got no certificate")
            return found
        made = await keys.make(node=self._node)
        pending = Pending(key=made.key, request=made.request, purpose=self._purpose())
        self._files.keep_pending(pending)
        self._say("key", f"made here, in {self._files.folder}; it never leaves this device")
        return pending

    def _keep(self, answer: IssuedCertificate, pending: Pending) -> Pair:
        if self._node and answer.node != self._node:
            raise CannotJoin(f"the hub issued a certificate to {answer.node}, not to {self._node}; report it")
        self._files.write_authorities(answer.authorities)
        if answer.issuers:
            self._files.write_issuers(answer.issuers)
        pair = self._files.add(pending.key, answer.certificates)
        own = pair.certificate
        if own.name != answer.node:
            raise CannotJoin(f"the certificate names {own.name}, but the hub said {answer.node}; report it")
        self._say("certificate", f"{own.name}, by {own.issuer or '?'}, until {certificate.day(own.not_after)}")
        return pair

    def _finish(self, pair: Pair) -> Joined:
        name = pair.certificate.name
        self._files.use(pair)
        written = self._settings.write(self._keys(name), owner=self._owner)
        if ca_file := self._settings.publish_issuers(self._files):
            self._say("CA file", ca_file)
        self._files.drop_pending()
        self._say("settings", f"{self._settings.path}{'' if written else ' (unchanged)'}")
        return Joined(
            node=name,
            expires=certificate.day(pair.certificate.not_after),
            config=self._settings.path,
            owner=name_of(self._owner),
        )

    def _keys(self, node: str) -> dict[str, str]:
        return {
            "node": node,
            "hub_url": self._wanted.url,
            "data_dir": str(self._settings.data_dir),
            "tls_ca": str(self._files.authorities.absolute()),
            "tls_cert": str(self._files.link.absolute()),
            "tls_key": str(self._files.link.absolute()),
        }

    # ---- the hub -----------------------------------------------------------------------------------

    async def _ask_authorities(self) -> bytes:
        """PEM of the authorities that the token names.  Sends nothing about this device."""
        url = self._wanted.url
        try:
            async with join_client.connected(url, join_client.unverified(), agent=self._agent) as hub:
                theirs = hub.hub_time()
                shown = await hub.authorities()
        except HubUnreachable as error:
            raise CannotJoin(_first_failure(error)) from None
        if theirs is not None:
            self._say("clock of the hub", certificate.day(theirs) + _skew(theirs))
        try:
            found = authority_bundle.by_pin(shown)
        except ValueError as error:
            raise CannotJoin(f"what {url} sent as its authorities {error}: it is not a hub, or a broken one") from None
        trusted = [found[pin] for pin in self._wanted.token.pins if pin in found]
        if not trusted:
            is_typed = any(
                sum(one != other for one, other in zip(pin, shown_pin, strict=True)) <= MISTYPED_DIGITS_MAX
                for pin in self._wanted.token.pins
                for shown_pin in found
            )
            likely = (
                "They are nearly the same, so the token was probably mistyped; paste it"
                if is_typed
                else "Either the URL belongs to another installation, or a machine in between impersonates the hub"
            )
            raise CannotJoin(
                f"{url} is not the hub this token was made for: its authority is {' '.join(found) or 'none'}, the"
                f" token names {' '.join(self._wanted.token.pins)}. {likely}. The token was not sent; check the URL, or"
                " make a new token"
            )
        self._say("authority", "is the one that the token names")
        return b"".join(trusted)

    async def _ask_certificate(self, context: ssl.SSLContext, pending: Pending) -> IssuedCertificate:
        """Request the certificate; each attempt sends the same request, because an answer may have been lost."""
        try:
            async with join_client.connected(self._wanted.url, context, agent=self._agent) as hub:
                return await hub.join(self._wanted.token, node=self._node, request=pending.request)
        except HubUnreachable as error:
            if error.refusal is not None:
                raise CannotJoin(_not_verified(error)) from None
            raise _Retryable(f"{error}; run the same command again: it uses the same key") from None
        except RefusedByHub as error:
            self._forget_refused(error)
            if remedy := remedy_of(error.code, self._wanted, self._settings):
                raise RefusedByHub(error.code, f"{error.reason}. {remedy}", error.retry_after) from None
            raise

    async def _with_retries(self, ask: Callable[[], Awaitable[Asked]]) -> Asked:
        """Retry if the hub asks to come back later, and if an answer may have been lost."""
        until, random = time.monotonic() + RETRY_SECONDS_MAX, Random()
        for attempt in itertools.count():
            try:
                return await ask()
            except (RefusedByHub, _Retryable) as error:
                asked = error.retry_after
                if asked is None:
                    raise
                pause = BACKOFF.pause(attempt, random.random(), asked=asked)
                if time.monotonic() + pause > until:
                    raise
                self._say("hub", f"{error}; retrying in {pause:.1f} s")
            await asyncio.sleep(pause)
        raise AssertionError("a count has no end")

    def _forget_refused(self, error: RefusedByHub) -> None:
        """Delete a key that the hub refused, so that it is not sent again."""
        if error.code.startswith("csr_"):
            with contextlib.suppress(IdentityFilesError):
                self._files.drop_pending()


def remedy_of(code: str, wanted: JoinOptions, settings: DeviceSettings) -> str:
    """What the device can add to the hub's refusal; "" if nothing."""
    if code == "token_node" and not wanted.node and settings.node:
        return f"The name {settings.node} comes from {settings.source('node')}: correct it, or give --node"
    return REMEDIES.get(code, "")


# ---- error texts -----------------------------------------------------------------------------------


def _first_failure(error: HubUnreachable) -> str:
    if error.refusal is not None or error.hung_up:
        likely = "" if error.refusal is not None else "most likely "
        return (
            f"{error}: {likely}the hub accepts no device without a certificate because its [identity] signer is off;"
            " set it there, or use a certificate made elsewhere (docs/howto/install.md)"
        )
    if error.no_tls:
        return (
            f"{error}. Nothing was sent. Either this is not the port of the hub's listen setting, or its security is"
            ' "insecure": such a hub signs no certificates; set security = "mtls" and [identity] signer there'
        )
    return f"{error}; nothing was sent. Check the URL, the network and the proxy (HTTPS_PROXY), then run it again"


def _not_verified(error: HubUnreachable) -> str:
    refused = error.refusal
    assert refused is not None
    said = f"{error}. The token was not sent"
    if refused.ours:
        return f"{error}; run the same command again: it uses the same key"
    if "expired" in refused.check or "not yet valid" in refused.check:
        return f"{said}: set this device's clock (it shows {certificate.day(_now())}), or renew the hub's certificate"
    if "mismatch" in refused.check.lower():
        return f"{said}: use a name from the hub's certificate, or add this one to it (hub.hosts of the chart)"
    return f"{said}: the hub's certificate does not belong to the authority that the token names; make a new token"


def _skew(theirs: datetime.datetime) -> str:
    seconds = (_now() - theirs).total_seconds()
    if abs(seconds) <= SKEW_SECONDS:
        return ""
    return f" (this device is {durations.span(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}: set its clock)"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


# ---- this machine ----------------------------------------------------------------------------------


def _trusting(authorities: bytes) -> ssl.SSLContext:
    """A context that trusts ``authorities``; if the clock is wrong, dates are checked against the earliest time."""
    context = join_client.verified(authorities)
    judgement = clock.judge(store_clock.read(), None, own_not_before=None)
    if judgement.distrust:
        context.distrust_clock(judgement.earliest)
    return context


def _refuse_missing_folder(settings: DeviceSettings, say: Say) -> None:
    """A mistyped --config must not create folders and a key, and use up a token; only the system's folder is made."""
    folder = settings.path.absolute().parent
    if settings.exists or folder.is_dir():
        return
    if folder != device.SYSTEM_FOLDER:
        raise CannotConfigure(
            f"--config {settings.path}: folder {folder} does not exist; correct the path, or create the folder."
            f" {NOTHING_SENT}"
        )
    say("will be created", f"{settings.path}, {settings.ca_file}, {settings.data_dir} (key, certificates, stores)")


def _node(wanted: JoinOptions, settings: DeviceSettings) -> str:
    if wanted.node and settings.node and wanted.node != settings.node:
        raise CannotJoin(
            f"{settings.source('node')} names node {settings.node}, but --node says {wanted.node}: correct one of them,"
            " or use another --config. Nothing was sent"
        )
    return wanted.node or settings.node
