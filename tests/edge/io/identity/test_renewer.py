"""Renewal at the edge: what a hub answers, and what is on disk afterwards."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.joining.pki import Authority
from websockets.asyncio.server import ServerConnection, serve

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError
from fairlead_edge.io.identity.renewer import LateRenewal, Renewer
from fairlead_edge.io.link.dialler import Dialler
from fairlead_edge.objects import session_events
from fairlead_hub.identity import csr
from fairlead_hub.identity.signer import CertificateTemplate
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_wire import message
from fairlead_wire.identity import node_names
from fairlead_wire.identity.join_token import ALPN
from fairlead_wire.link import codec

SECONDS = 60.0
DAY = datetime.timedelta(days=1)
pytestmark = pytest.mark.process
WELCOME = message.Welcome(
    hub="h",
    fence=1,
    session=1,
    keepalive_seconds=10,
    frame_bytes_max=1000,
    upstream_window=1,
    renew_after_seconds=0.0,
)
WELCOME_ONCE = msgspec.structs.replace(WELCOME, renew_after_seconds=9e6)
Answer = tuple[message.Issued | message.Nack, bytes]


async def signed(authority: Authority, request: bytes, name: str, number: int) -> str:
    """The chain of a certificate for three days."""
    names, now = node_names.of(name), datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    template = CertificateTemplate(
        names=names, request=csr.check(request, names), serial=number, not_before=now, not_after=now + 3 * DAY
    )
    return (await FileSigner(authority.certificate, authority.key).sign(template)).chain.decode()


class FakeHub:
    """Answers requests in the order of ``answers``, then by certificates for ``name``."""

    def __init__(self, folder: Path, name: str = "shop-1") -> None:
        self.edges, self.internal = Authority(folder / "edges", "edges"), Authority(folder / "internal", "internal")
        self.name = name
        self.requests: list[bytes] = []
        self.answers: list[Answer | Exception] = []

    async def ask(self, request: bytes) -> Answer:
        self.requests.append(request)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await self.issue(request)

    async def issue(self, request: bytes) -> Answer:
        chain = await signed(self.edges, request, self.name, 4711 + len(self.requests))
        content = message.IssuedCertificates(certificates=chain, authorities=self.internal.certificate.read_text())
        issued = message.Issued(parent_id=1, node=self.name, expires="2099-01-01T00:00:00Z", renew_after_seconds=9e6)
        return issued, msgspec.json.encode(content)


@pytest.fixture
def hub(tmp_path: Path) -> FakeHub:
    return FakeHub(tmp_path)


@pytest.fixture
def files(tmp_path: Path, hub: FakeHub) -> IdentityFiles:
    made = IdentityFiles(tmp_path / "identity")
    made.make_folder()
    pair = hub.edges.issue("shop-1")
    made.use(made.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
    return made


@contextlib.asynccontextmanager
async def running(files: IdentityFiles, hub: FakeHub) -> AsyncIterator[Renewer]:
    renewer = Renewer(files, node="shop-1", ask=hub.ask, random=Random(1))
    task = asyncio.create_task(renewer.run())
    try:
        yield renewer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(renewer: Renewer, event: str) -> None:
    await met(lambda: renewer.counters[event] > 0)


async def met(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - what is polled sets no event
            await asyncio.sleep(0.01)


def current(files: IdentityFiles) -> str:
    found = files.current()
    assert found is not None
    return found.certificate.serial


async def test_the_new_pair_is_used_and_the_old_one_stays_until_it_opened_a_session(
    files: IdentityFiles, hub: FakeHub
) -> None:
    before = files.current()
    assert before is not None
    async with running(files, hub) as renewer:
        renewer.opened(WELCOME, before.certificate)
        await until(renewer, "renewed")
        after = files.current()
        assert after is not None and after.certificate.serial != before.certificate.serial
        assert before.path.exists() and files.pending() is None
        assert files.authorities.read_bytes() == hub.internal.certificate.read_bytes()
        # A session that was opened with the old one says nothing about the new one.
        renewer.opened(WELCOME, before.certificate)
        assert before.path.exists()
        renewer.opened(WELCOME, after.certificate)
        assert not before.path.exists() and current(files) == after.certificate.serial


async def test_a_session_that_opens_while_a_pair_is_written_removes_it_not(
    files: IdentityFiles, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link ended with the answer on a slow disk, and came back at once: the link must lead somewhere."""
    before, loop = files.current(), asyncio.get_running_loop()
    assert before is not None
    write = files.write_authorities

    async def opened() -> None:
        renewer.opened(WELCOME_ONCE, before.certificate)

    def slow(content: bytes) -> None:
        asyncio.run_coroutine_threadsafe(opened(), loop).result(SECONDS)
        write(content)

    monkeypatch.setattr(files, "write_authorities", slow)
    async with running(files, hub) as renewer:
        renewer.opened(WELCOME, before.certificate)
        await until(renewer, "renewed")
        assert current(files) != before.certificate.serial and before.path.exists()


def test_a_pair_that_is_gone_is_not_put_in_use(files: IdentityFiles, hub: FakeHub) -> None:
    pair = hub.edges.issue("shop-1")
    added = files.add(pair.key.read_bytes(), pair.certificate.read_bytes())
    before = current(files)
    added.path.unlink()
    with pytest.raises(IdentityFilesError, match="No such file"):
        files.use(added)
    assert current(files) == before


async def test_what_is_refused_is_asked_again_with_the_same_key_and_changes_nothing(
    files: IdentityFiles, hub: FakeHub
) -> None:
    before = current(files)
    nack = message.Nack(parent_id=1, code="signer_unavailable", reason="away", retry_after=30.0)
    hub.answers = [(nack, b"")]
    async with running(files, hub) as renewer:
        renewer.opened(WELCOME, None)
        await until(renewer, "failed_signer_unavailable")
        assert (renewer.state.code, renewer.state.reason, renewer.state.failures) == ("signer_unavailable", "away", 1)
        left = renewer.seconds_left()
        assert left is not None and 20.0 < left <= 30.0 and current(files) == before
    hub.answers = [LinkDown("gone")]
    async with running(files, hub) as renewer:
        renewer.opened(WELCOME, None)
        await met(lambda: len(hub.requests) == 2)
        renewer.ended()
        assert renewer.state.failures == 0
        renewer.opened(WELCOME, None)
        await until(renewer, "renewed")
    assert len(set(hub.requests)) == 1, "one key, asked for until it has its certificate"


@pytest.mark.parametrize("wrong", ["name", "key", "noise"])
async def test_a_certificate_that_is_not_ours_is_not_used(
    files: IdentityFiles, hub: FakeHub, tmp_path: Path, wrong: str
) -> None:
    before = current(files)
    header, content = await hub.issue((await Renewer(files, node="", ask=hub.ask, random=Random()).pending()).request)
    if wrong == "name":
        hub.name = "shop-2"
    elif wrong == "key":
        other = hub.edges.issue("shop-1").certificate.read_text()
        content = msgspec.json.encode(message.IssuedCertificates(certificates=other, authorities=""))
        hub.answers = [(header, content)]
    else:
        hub.answers = [(header, b"[]")]
    async with running(files, hub) as renewer:
        renewer.opened(WELCOME, None)
        await until(renewer, "failed_malformed" if wrong == "noise" else "failed_local")
        assert current(files) == before and renewer.state.reason


async def test_a_renewed_certificate_that_the_hub_refuses_is_taken_back(files: IdentityFiles, hub: FakeHub) -> None:
    """The one before it opened sessions, and opens them again; one that never did is not there to go back to."""
    before = files.current()
    assert before is not None
    async with running(files, hub) as renewer:
        assert not renewer.refused(before.certificate, "it has expired")
        renewer.opened(WELCOME, before.certificate)
        await until(renewer, "renewed")
        after = files.current()
        assert after is not None
        assert not renewer.refused(before.certificate, "of a dial that began earlier")
        assert renewer.refused(after.certificate, "the other side does not trust its authority")
        assert current(files) == before.certificate.serial
        assert renewer.state.code == "unusable" and renewer.counters["taken_back"] == 1


NONCE = bytes(range(32))


class Site:
    """A device with a certificate that ended, and a hub that answers with ``answer`` where it is given."""

    def __init__(self, folder: Path) -> None:
        self.edges = Authority(folder / "edges", "edges", age=400 * DAY)
        self.internal = Authority(folder / "internal", "internal")
        self.own = self.internal.issue("hub", hosts=("127.0.0.1",))
        now = datetime.datetime.now(datetime.UTC)
        pair = self.edges.issue("shop-1", hosts=("shop-1",), begins=now - 100 * DAY, valid=-10 * DAY)
        self.files = IdentityFiles(folder / "identity")
        self.files.make_folder()
        self.files.use(self.files.add(pair.key.read_bytes(), pair.certificate.read_bytes()))
        self.files.write_authorities(self.internal.certificate.read_bytes())
        self.heard: list[tuple[message.FromDevice, bytes]] = []
        self.answer: message.Refuse | None = None
        self.renewer = Renewer(self.files, node="shop-1", ask=self.never, random=Random())

    async def never(self, request: bytes) -> Any:
        raise AssertionError

    async def attempt(self) -> session_events.Close:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(self.own.certificate), str(self.own.key))
        context.set_alpn_protocols([ALPN])
        async with serve(self.converse, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            dial = Dialler(f"wss://127.0.0.1:{port}", agent="1").connect
            late = LateRenewal(self.files, self.renewer, node="shop-1", agent="1", dial=dial)
            return await late.attempt(store_epoch=77, fence=3, earliest=None)

    async def converse(self, connection: ServerConnection) -> None:
        side = connection.transport.get_extra_info("ssl_object")
        assert side.selected_alpn_protocol() == ALPN and not side.getpeercert()
        await self.hear(connection)
        if self.answer is not None:
            await connection.send(codec.encode(self.answer))
            return
        await connection.send(codec.encode(message.Challenge(nonce=NONCE.hex())))
        proof = msgspec.json.decode(await self.hear(connection), type=message.Proof)
        header, content = await self.issue(base64.b64decode(proof.request))
        await connection.send(codec.encode(header, content))

    async def hear(self, connection: ServerConnection) -> bytes:
        found = codec.decode_from_device(await connection.recv(decode=False))
        self.heard.append(found)
        return found[1]

    async def issue(self, request: bytes) -> tuple[message.Issued, bytes]:
        chain = await signed(self.edges, request, "shop-1", 4711)
        content = message.IssuedCertificates(certificates=chain, authorities="")
        return message.Issued(node="shop-1", expires="2099-01-01T00:00:00Z"), msgspec.json.encode(content)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_the_old_key_signs_for_this_hub_and_this_request(site: Site) -> None:
    before = site.files.current()
    assert before is not None
    end = await site.attempt()
    assert (end.code, end.retry_after) == ("renewed_late", 0.0)
    assert current(site.files) == f"{4711:x}" and before.path.exists() and site.files.pending() is None
    (late, _), (_, content) = site.heard
    assert late == message.Late(node="shop-1", agent="1", store_epoch=77, fence=3)
    proof = msgspec.json.decode(content, type=message.Proof)
    [old] = x509.load_pem_x509_certificates(proof.certificates.encode())
    key = old.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey) and "PRIVATE" not in content.decode()
    shown = ssl.PEM_cert_to_DER_cert(site.own.certificate.read_text())
    proven = message.late_proof(NONCE, hub_certificate=shown, request=base64.b64decode(proof.request))
    key.verify(base64.b64decode(proof.signature), proven, ec.ECDSA(hashes.SHA256()))
    assert site.renewer.counters == {"late": 1}


async def test_a_refusal_is_told_and_asked_again_later(site: Site) -> None:
    before = current(site.files)
    for retry_after, expected in ((60.0, 60.0), (None, 30.0)):
        site.answer = message.Refuse(code="held", reason="fairlead node approve shop-1", retry_after=retry_after)
        end = await site.attempt()
        assert (end.code, end.reason, end.retry_after) == ("held", "fairlead node approve shop-1", expected)
    assert current(site.files) == before and site.renewer.counters == {"late_refused_held": 2}


async def test_a_hub_of_another_authority_hears_nothing(site: Site, tmp_path: Path) -> None:
    site.own = Authority(tmp_path / "other", "internal").issue("hub", hosts=("127.0.0.1",))
    with pytest.raises(Exception, match="refused here"):
        await site.attempt()
    assert not site.heard
