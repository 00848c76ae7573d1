"""Requests for certificates in sessions, and their answers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub_core import Core
from tests.support.joining import pki

from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignerUnavailable
from fairlead_hub.io.identity import renewal_service
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.renewal_service import RenewalService
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message

SECONDS = 60.0
SHOWN = NodeCertificate(issued="2027-01-01T00:00:00Z", expires="2027-03-01T00:00:00Z", serial="1", issuer="edges")
KEY = ec.generate_private_key(ec.SECP256R1())


class Desk:
    """A hub with one node in a session, and who signs."""

    def __init__(self, folder: Path) -> None:
        self.core = Core("edge-1")
        root = pki.Authority(folder / "edges", "edges")
        self.refusal: IdentityRefused | None = None
        self.issuing = Issuing(
            FileSigner(root.certificate, root.key),
            installation="fairlead",
            days=90,
            wall=time.time,
            refusal=lambda: self.refusal,
        )
        self.counts: Counter[str] = Counter()
        self.service = RenewalService(
            self.core.hub,
            self.issuing,
            roots=lambda: b"roots",
            issuers=lambda: b"issuers",
            clock=lambda: self.core.now,
            counts=self.counts,
        )
        self.core.hub.identities.plan.signs(lambda: self.issuing.signer.authority)
        self.session = self.open()

    def open(self) -> SessionRef:
        session = self.core.hub.sessions.open("edge-1", self.core.hello("edge-1"), self.core.now, SHOWN)
        assert isinstance(session, SessionRef)
        return session

    def ask(self, id: int = 1, request: bytes = b"") -> None:
        request = request or pki.signing_request(KEY)
        header = message.Renew(id=id)
        assert self.core.hub.sessions.receive(self.session, header, request, self.core.now) is header
        self.service.accept(self.session, header, request)

    async def answers(self, count: int = 1) -> list[tuple[Any, bytes]]:
        found: list[tuple[Any, bytes]] = []
        async with asyncio.timeout(SECONDS):
            while len(found) < count:
                await asyncio.sleep(0)
                self.core.settle()
                frames = self.core.frames(self.session)
                found += [each for each in frames if isinstance(each[0], message.Issued | message.Nack)]
        return found


@contextlib.asynccontextmanager
async def working(service: RenewalService) -> AsyncIterator[None]:
    task = asyncio.create_task(service.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.core.frames(made.session)
    return made


async def test_a_node_gets_its_own_name_and_hears_when_to_come_again(desk: Desk) -> None:
    desk.ask(id=7)
    async with working(desk.service):
        [(issued, content)] = await desk.answers()
    assert isinstance(issued, message.Issued)
    assert (issued.parent_id, issued.node) == (7, "edge-1")
    # The core's wall clock is another one than the signer's here: what counts is that it says when.
    assert issued.renew_after_seconds is not None
    found = msgspec.json.decode(content, type=message.IssuedCertificates)
    [leaf] = x509.load_pem_x509_certificates(found.certificates.encode())
    assert leaf.public_key() == KEY.public_key() and found.authorities == "roots"
    assert found.issuers == "issuers"
    assert desk.counts == {"renewed": 1}


@pytest.mark.parametrize(
    ("request_", "code"),
    [(pki.signing_request(KEY, name="edge-2"), "csr_name"), (b"noise", "csr_malformed")],
)
async def test_a_request_for_another_name_is_refused_and_the_session_stays(
    desk: Desk, request_: bytes, code: str
) -> None:
    desk.ask(request=request_)
    async with working(desk.service):
        [(nack, _)] = await desk.answers()
    assert isinstance(nack, message.Nack)
    assert (nack.code, nack.permanent) == (code, True) and nack.retry_after and nack.reason
    assert desk.core.hub.sessions.is_open(desk.session) and desk.counts == {code: 1}


def _away(desk: Desk) -> None:
    desk.refusal = IdentityRefused("clock", "the clock is wrong", retry_after=30.0)


def _broken(desk: Desk) -> None:
    async def sign(_: Any) -> Any:
        raise SignerUnavailable("the issuer is away")

    signer: Any = desk.issuing.signer
    signer.sign = sign


@pytest.mark.parametrize(("break_", "code"), [(_away, "clock"), (_broken, "signer_unavailable")])
async def test_a_signer_that_is_away_is_asked_again_later(
    desk: Desk, break_: Callable[[Desk], None], code: str
) -> None:
    break_(desk)
    desk.ask()
    async with working(desk.service):
        [(nack, _)] = await desk.answers()
    assert isinstance(nack, message.Nack)
    assert (nack.code, nack.permanent) == (code, False) and nack.retry_after
    assert desk.core.hub.sessions.is_open(desk.session)


async def test_of_two_requests_the_newer_one_counts(desk: Desk) -> None:
    desk.ask(id=1)
    desk.ask(id=2)
    async with working(desk.service):
        answers = await desk.answers(2)
    assert {(type(header).__name__, header.parent_id) for header, _ in answers} == {("Nack", 1), ("Issued", 2)}


async def test_a_node_that_asks_without_end_waits(desk: Desk) -> None:
    """Also in another session; after a while it gets one again."""
    count = int(renewal_service.OFTEN_BURST)
    async with working(desk.service):
        for id in range(count):
            desk.ask(id=id)
            await desk.answers()
        desk.core.hub.sessions.closed(desk.session, desk.core.now)
        desk.session = desk.open()
        desk.core.frames(desk.session)
        desk.ask(id=99)
        [(nack, _)] = await desk.answers()
        assert isinstance(nack, message.Nack)
        assert (nack.parent_id, nack.code, nack.permanent) == (99, "too_many", False) and nack.retry_after
        desk.core.now += nack.retry_after
        desk.ask(id=100)
        [(issued, _)] = await desk.answers()
        assert isinstance(issued, message.Issued)
    assert desk.counts == {"renewed": count + 1, "too_many": 1}


async def test_a_session_that_ended_gets_nothing(desk: Desk) -> None:
    """Nothing is signed for it."""
    desk.ask()
    desk.core.hub.sessions.closed(desk.session, desk.core.now)
    desk.session = desk.open()
    desk.core.frames(desk.session)
    desk.ask(id=9)
    async with working(desk.service):
        [(issued, _)] = await desk.answers()
    assert issued.parent_id == 9 and desk.counts == {"renewed": 1} and desk.issuing.signed == 1


async def test_what_was_revoked_meanwhile_does_not_begin_earlier(desk: Desk) -> None:
    """The certificate that is made must not be among those that were revoked."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    before = f"{now - datetime.timedelta(seconds=100):%Y-%m-%dT%H:%M:%SZ}"
    desk.core.hub.identities.spec_observed("edge-1", {"revoked": {"before": before}})
    desk.ask()
    async with working(desk.service):
        [(_, content)] = await desk.answers()
    found = msgspec.json.decode(content, type=message.IssuedCertificates)
    [leaf] = x509.load_pem_x509_certificates(found.certificates.encode())
    assert f"{leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}" >= before
