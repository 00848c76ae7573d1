"""The conversation without a certificate, on real sockets: what is answered, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import Core
from tests.support.joining import join_client, join_cluster, pki
from tests.support.joining.join_client import Gone, certificates, device
from tests.support.joining.join_cluster import JoinCluster, JoiningHub

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignedCertificate
from fairlead_hub.io.identity import joining
from fairlead_hub.io.identity.joining import JoinServer
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_wire import message
from fairlead_wire.identity import join_token
from fairlead_wire.io import tls
from fairlead_wire.link import codec

KEY = ec.generate_private_key(ec.SECP256R1())


class Late:
    """A late renewal that proves by the word it was asked for."""

    def __init__(self, issued: SignedCertificate) -> None:
        self._issued = issued

    async def challenge(self, header: message.Late, peer: str) -> tuple[message.Challenge, Any]:
        return message.Challenge(nonce="abc"), header.node

    async def prove(self, begun: Any, content: bytes, peer: str) -> SignedCertificate:
        if content != b"abc":
            raise IdentityRefused("held", f"{begun}: the proof is wrong", retry_after=60)
        return self._issued


class Site:
    """A real link server whose devices meet a real join service, with an API server in memory."""

    def __init__(self, folder: Path) -> None:
        self.internal = pki.Authority(folder / "internal", "internal")
        self.edges = join_cluster.authority_of(folder / "edges")
        self.roots = self.internal.certificate.read_bytes()
        server = self.internal.issue("hub", hosts=("127.0.0.1",))
        files = tls.Files(ca=self.edges.certificate, cert=server.certificate, key=server.key)
        self.context = tls.server_context(
            files, logs_refusals=False, certificate_is_optional=True, alpn=join_token.ALPN
        )
        self.cluster, self.may_send = JoinCluster(), True
        self.hub = JoiningHub(self.cluster, self.edges)
        self.core = Core("edge-1")
        late: Any = None
        self.refused: list[str] = []
        self.joining = JoinServer(
            self.hub.service,
            roots=lambda: self.roots,
            issuers=self.edges.certificate.read_bytes,
            may_send=lambda: self.may_send,
            late=late,
            refused=lambda refusal, peer: self.refused.append(f"{refusal.code} {peer.partition(':')[0]}"),
        )
        upstream = UpstreamPublisher(self.core.hub, None, window=2)
        self.server = LinkServer(
            self.core.hub, upstream, context=self.context, on_stale=lambda node, fence: False, joining=self.joining
        )
        self.ready, self.core.has_shell = ReadyLoop(self.core.hub, self.server), True
        self.url = ""

    def token(self, **spec: Any) -> join_token.JoinToken:
        token = join_token.make(secrets.token_bytes, ["0" * 64])
        self.cluster.put(join_client.join_token_object(token, **spec))
        return token


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    made.url = f"wss://127.0.0.1:{await made.server.start('127.0.0.1', 0)}"
    yield made
    await made.server.drain()


async def _refusal(peer: join_client.Device) -> message.Refuse:
    """The next frame, and that nothing follows it."""
    header, _ = await peer.answer()
    assert isinstance(header, message.Refuse), header
    with pytest.raises(Gone):
        await peer.answer()
    return header


async def test_a_device_joins(site: Site):
    """The chain of its certificate, the roots, and when it ends."""
    token = site.token(node="edge-1")
    answer = await join_client.join(site.url, token, roots=site.roots, key=KEY)
    issued, header = certificates(answer), answer[0]
    assert isinstance(header, message.Issued) and (header.node, header.expires[:4]) == ("edge-1", "2030")
    assert issued.authorities.encode() == site.roots and site.server.openings()[0] == 0
    await until(lambda: len(site.joining) == 0)


async def test_a_node_with_a_certificate_is_served_as_ever(site: Site):
    """Beside devices that join."""
    pair = site.edges.issue("edge-1")
    files = tls.Files(ca=site.internal.certificate, cert=pair.certificate, key=pair.key)
    async with device(site.url, site.roots):
        node = SimulatedNode("edge-1", site.url, context=tls.client_context(files))
        task = asyncio.create_task(node.run())
        await until(lambda: node.connected.is_set())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


HELLO = message.Hello(node="edge-1", agent="x", store_epoch=1, fence=0, bits=0, held=0, root="0")


@pytest.mark.parametrize(
    "frame",
    [
        codec.encode(HELLO),
        codec.encode(message.Keepalive()),
        codec.encode(message.Renew(id=1), b"x"),
        codec.encode(message.Upstream(id=1, stream="s"), b"[]"),
        codec.encode(message.Refuse(code="x", reason="y")),
        b"",
        b"\x01\xff\xff\xff\xff",
        b"\x01\x00\x00\x00\x02{}",
    ],
    ids=["hello", "keepalive", "renew", "upstream", "refuse", "nothing", "a long header", "no operation"],
)
async def test_any_other_frame_ends_it(site: Site, frame: bytes):
    """With the code of who has no identity, and never a session."""
    async with device(site.url) as peer:
        await peer.send(frame)
        assert (await _refusal(peer)).code == "identity"
    assert not site.core.hub.open_sessions.by_node and site.refused == ["identity 127.0.0.1"]
    await until(lambda: len(site.joining) == 0)


async def test_text_is_no_frame(site: Site):
    """Nor is a message that is larger than any of a device."""
    async with device(site.url) as peer:
        await peer.connection.send("hello")
        assert (await _refusal(peer)).code == "identity"
    async with device(site.url) as peer:
        with contextlib.suppress(Exception):
            await peer.send(b"x" * (joining.FRAME_BYTES_MAX + 1))
        with pytest.raises(Gone):
            await peer.answer()


@pytest.mark.parametrize("alpn", ["", "http/1.1", "fairlead-join/2"])
async def test_who_did_not_agree_on_joining_is_refused(site: Site, alpn: str):
    """Before a frame is read."""
    async with device(site.url, alpn=alpn) as peer:
        assert join_token.ALPN in (await _refusal(peer)).reason
    assert site.refused == ["identity 127.0.0.1"]


async def test_as_many_at_once_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch):
    """The seventeenth hears so at once; nodes do not feel it."""
    monkeypatch.setattr(joining, "QUIET_SECONDS", 1000.0)
    monkeypatch.setattr(joining, "IDLE_SECONDS", 1000.0)
    async with contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(device(site.url)) for _ in range(joining.CONVERSATIONS_MAX)]
        for peer in peers:
            assert isinstance((await peer.ask(message.AskAuthorities()))[0], message.Authorities)
        async with device(site.url) as late:
            refused = await _refusal(late)
            assert (refused.code, refused.retry_after) == ("too_many", joining.BUSY_RETRY_SECONDS)
            assert site.refused == ["too_many 127.0.0.1"]
        assert site.server.openings()[0] == 0
    await until(lambda: len(site.joining) == 0)
    async with device(site.url) as peer:
        assert isinstance((await peer.ask(message.AskAuthorities()))[0], message.Authorities)


async def test_who_only_waits_makes_room(site: Site, monkeypatch: pytest.MonkeyPatch):
    """Sixteen silent connections keep no device out; the one that has been quiet longest ends."""
    monkeypatch.setattr(joining, "QUIET_SECONDS", 0.0)
    token = site.token(node="edge-1")
    async with contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(device(site.url)) for _ in range(joining.CONVERSATIONS_MAX)]
        await until(lambda: len(site.joining) == len(peers))
        assert certificates(await join_client.join(site.url, token, key=KEY)).certificates
        with pytest.raises(Gone):
            await peers[0].answer()
        assert isinstance((await peers[-1].ask(message.AskAuthorities()))[0], message.Authorities)


async def test_one_address_does_not_keep_others_out(site: Site, monkeypatch: pytest.MonkeyPatch):
    """Also not one that asks for a challenge each time."""
    monkeypatch.setattr(joining, "QUIET_SECONDS", 1000.0)
    monkeypatch.setattr(joining, "IDLE_SECONDS", 1000.0)
    site.joining._late = Late(await site.hub.join(site.token(node="edge-1"), "edge-1", KEY))
    late = message.Late(node="edge-1", agent="x", store_epoch=1, fence=0)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(joining.CONVERSATIONS_MAX):
            peer = await stack.enter_async_context(device(site.url))
            assert isinstance((await peer.ask(late))[0], message.Challenge)
        async with device(site.url) as same:
            assert (await _refusal(same)).code == "too_many"
        async with device(site.url, local="127.0.0.2") as other:
            assert isinstance((await other.ask(message.AskAuthorities()))[0], message.Authorities)


async def test_who_says_nothing_is_let_go(site: Site, monkeypatch: pytest.MonkeyPatch):
    """By a deadline of its own."""
    monkeypatch.setattr(joining, "IDLE_SECONDS", 0.05)
    async with device(site.url) as peer:
        with pytest.raises(Gone):
            await peer.answer()
    await until(lambda: len(site.joining) == 0)


async def test_questions_without_end_end(site: Site):
    """So many frames, and no second before the answer to the first."""
    async with device(site.url) as peer:
        for _ in range(joining.FRAMES_MAX):
            await peer.ask(message.AskAuthorities())
        await peer.send(codec.encode(message.AskAuthorities()))
        assert (await _refusal(peer)).code == "identity"


async def test_a_device_that_left_gets_its_certificate_when_it_asks_again(site: Site):
    """What was written down is signed; the second answer is the first."""
    token = site.token(node="edge-1")
    header = message.Join(token_id=token.id, secret=token.secret, node="edge-1", agent="x")
    async with device(site.url) as peer:
        await peer.send(codec.encode(header, pki.signing_request(KEY)))
        peer.connection.transport.abort()
    await until(lambda: len(site.hub.joined) == 1)
    issued = certificates(await join_client.join(site.url, token, key=KEY))
    assert issued.certificates.encode() == site.hub.joined[0][1].chain


async def test_when_its_own_authorities_cannot_be_read_the_hub_says_so(site: Site):
    """At once, and not by silence; the certificate of a use that was written is given later."""

    def unreadable() -> bytes:
        raise FileNotFoundError("tls_ca")

    site.joining._roots = unreadable
    token = site.token(node="edge-1")
    header = message.Join(token_id=token.id, secret=token.secret, node="edge-1", agent="x")
    for frame in (codec.encode(message.AskAuthorities()), codec.encode(header, pki.signing_request(KEY))):
        async with device(site.url) as peer:
            await peer.send(frame)
            refused = await _refusal(peer)
            assert (refused.code, refused.retry_after) == ("signer_unavailable", joining.FAILED_RETRY_SECONDS)
    site.joining._roots = lambda: site.roots
    assert certificates(await join_client.join(site.url, token, key=KEY)).authorities.encode() == site.roots


async def test_late_renewal_is_asked_where_there_is_one(site: Site):
    """Challenge, proof, certificate; a proof without a challenge is none."""
    late = message.Late(node="edge-1", agent="x", store_epoch=1, fence=0)
    async with device(site.url) as peer:
        await peer.send(codec.encode(late))
        assert (await _refusal(peer)).code == "late_off"
    issued = await site.hub.join(site.token(node="edge-1"), "edge-1", KEY)
    site.joining._late = Late(issued)
    async with device(site.url) as peer:
        assert isinstance((await peer.ask(late))[0], message.Challenge)
        assert certificates(await peer.ask(message.Prove(), b"abc")).certificates.encode() == issued.chain
    async with device(site.url) as peer:
        await peer.ask(late)
        await peer.send(codec.encode(message.Prove(), b"wrong"))
        assert (await _refusal(peer)).code == "held"
    async with device(site.url) as peer:
        await peer.send(codec.encode(message.Prove(), b"abc"))
        assert (await _refusal(peer)).code == "identity"


async def test_a_hub_that_may_have_been_replaced_says_nothing(site: Site):
    """Neither to those who come nor to those who are there."""
    async with device(site.url) as there:
        await there.ask(message.AskAuthorities())
        site.may_send = False
        with pytest.raises(Gone):
            await there.ask(message.AskAuthorities())
        async with device(site.url) as peer:
            with pytest.raises(Gone):
                await peer.ask(message.AskAuthorities())


async def test_when_the_hub_drains_conversations_end(site: Site):
    """The device comes again, to another."""
    async with device(site.url) as peer:
        await peer.ask(message.AskAuthorities())
        await site.server.drain()
        with pytest.raises(Gone):
            await peer.answer()
