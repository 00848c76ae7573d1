"""A stranger tries to become a node, or to keep others from being nodes: a real hub beside a real API server.

One hub lives through all of it; each test leaves it as it found it, and at the end a device joins as ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import random
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.fuzz import corpus
from tests.fuzz.mutate import Mutator
from tests.support.hubs.hub import CRDS, edge_node, fleet, until
from tests.support.joining import join_client, pki
from tests.support.joining.join_client import certificates, device, join, make_token
from tests.support.joining.join_site import TOKENS, Site
from tests.support.kube.cluster import Cluster
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from fairlead_wire import message
from fairlead_wire.errors import RemoteError
from fairlead_wire.identity.join_token import JoinToken
from fairlead_wire.io import tls
from fairlead_wire.link import codec

pytestmark = [pytest.mark.verify, pytest.mark.kube]

NODES = [f"edge-{number}" for number in range(20)]
GUESSERS, GUESSES = 8, 400
HALF_OPEN = 1500
FRAMES = 150


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply([edge_node(name) for name in NODES])
    folder = tmp_path_factory.mktemp("site")
    site = Site(cluster, folder)
    site.hub.start()
    try:
        yield site
        assert site.hub.stop() == 0
    finally:
        site.hub.kill()
        cluster.kubectl("delete", "nodes,edgenodes,jointokens,leases", "--all", "--wait=true")
    log = (folder / "hub.log").read_text()
    assert '"traceback"' not in log and "never retrieved" not in log


async def admitted(site: Site, token: JoinToken, node: str, key: Any) -> message.IssuedCertificates:
    return certificates(await patiently(site, token, node, key=key))


async def patiently(site: Site, token: JoinToken, node: str, **request: Any) -> tuple[message.ToDevice, bytes]:
    """As a device asks: again, where the hub says that too many ask at once, or that the hub does not know yet."""
    async with asyncio.timeout(250):
        while True:
            answer = await join(site.url, token, roots=site.roots, node=node, **request)
            header = answer[0]
            if not isinstance(header, message.Refuse) or header.code not in ("too_many", "starting"):
                return answer
            await asyncio.sleep(min(header.retry_after or 0.2, 0.5))


async def refused(site: Site, token: JoinToken, node: str, **request: Any) -> str:
    """The code."""
    header, _ = await patiently(site, token, node, **request)
    assert isinstance(header, message.Refuse), header
    return header.code


async def noticed(site: Site, **spec: Any) -> JoinToken:
    """A new token that the hub has seen."""
    token = await asyncio.to_thread(make_token, site.kube, **spec)
    await site.seen(token.id)
    return token


def uses(site: Site, token: JoinToken) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.kube.get(f"{TOKENS}/{token.id}").get("status", {}).get("uses", [])
    return found


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@contextlib.asynccontextmanager
async def nodes_open(site: Site) -> AsyncIterator[None]:
    """Nodes with certificates come while the block lasts, and all of them are served before it ends."""
    async with contextlib.AsyncExitStack() as stack:
        opened = []
        for name in NODES:
            pair = await asyncio.to_thread(site.edges.issue, name)
            files = tls.Files(ca=site.internal.certificate, cert=pair.certificate, key=pair.key)
            fleet_of_one = fleet(site.hub, name, context=tls.client_context(files))
            opened.append((await stack.enter_async_context(fleet_of_one))[name])
        yield
        await until("all nodes are served", lambda: all(each.connected.is_set() for each in opened), seconds=250)


async def test_a_stolen_token_admits_one_device_and_the_other_is_notified(site: Site) -> None:
    """The second one learns that it was used, and the hub's log says so: the owner notices the thief."""
    token, thief = await noticed(site, node="fresh-0"), new_key()
    stolen = await admitted(site, token, "fresh-0", thief)
    assert await refused(site, token, "fresh-0", key=new_key()) == "token_used"
    again = await admitted(site, token, "fresh-0", thief)
    assert again.certificates == stolen.certificates, "a repeat of the same request gets no second certificate"
    assert len(uses(site, token)) == 1
    assert [each for each in site.hub.events("identity_refused") if each["code"] == "token_used"]


async def test_a_name_that_is_taken_is_not_given_again(site: Site) -> None:
    """By a token for any name like a pattern; the same token admits a name that is free."""
    first = await noticed(site, node="fresh-1")
    key = new_key()
    await admitted(site, first, "fresh-1", key)
    pattern = await noticed(site, pattern="fresh-*", uses=5)
    assert await refused(site, pattern, "fresh-1", key=new_key()) == "name_taken"
    assert await refused(site, pattern, "shop-1", key=new_key()) == "token_node"
    assert await refused(site, pattern, "fresh-2", key=key) == "csr_key_reused"
    assert uses(site, pattern) == []
    assert await admitted(site, pattern, "fresh-2", new_key())


def requests() -> dict[str, tuple[str, bytes]]:
    """By what is wrong with it: the code, and the request."""
    key = new_key()
    right = pki.signing_request(key, name="fresh-3")
    damaged = right[:-1] + bytes((right[-1] ^ 1,))
    authority = x509.BasicConstraints(ca=True, path_length=None)
    return {
        "another name": ("csr_name", pki.signing_request(key, name="fresh-4")),
        "another DNS name": ("csr_name", pki.signing_request(key, alternatives=[x509.DNSName("fresh-4")])),
        "a hub's name": ("csr_name", pki.signing_request(key, alternatives=[x509.DNSName("hub")])),
        "another URI": ("csr_name", pki.signing_request(key, alternatives=[x509.UniformResourceIdentifier("spiffe://a/b")])),
        "an authority": ("csr_ca", pki.signing_request(key, name="fresh-3", extensions=[(authority, True)])),
        "a short RSA key": ("csr_key", pki.signing_request(rsa.generate_private_key(65537, 2048), name="fresh-3")),
        "an unusual curve": ("csr_key", pki.signing_request(ec.generate_private_key(ec.SECP256K1()), name="fresh-3")),
        "a weak hash": ("csr_signature", pki.signing_request(key, name="fresh-3", algorithm=hashes.SHA224())),
        "another's signature": ("csr_signature", damaged),
        "another version": ("csr_malformed", right.replace(b"\x02\x01\x00", b"\x02\x01\x39", 1)),
        "noise": ("csr_malformed", secrets.token_bytes(200)),
        "nothing": ("csr_malformed", b"\x00"),
    }  # fmt: skip


async def test_a_request_for_more_than_a_node_may_have_is_refused_and_spends_nothing(site: Site) -> None:
    """By its code; afterwards the same token admits."""
    token = await noticed(site, node="fresh-3")
    for what, (code, der) in requests().items():
        assert await refused(site, token, "fresh-3", request=der) == code, what
    assert uses(site, token) == []
    issued = await admitted(site, token, "fresh-3", new_key())
    [leaf] = x509.load_pem_x509_certificates(issued.certificates.encode())
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


async def test_guessing_gains_nothing_and_holds_up_no_node(site: Site) -> None:
    """Known and unknown tokens get the same answer until one is locked; nodes open sessions all the while."""
    victim = await noticed(site, node="fresh-5")
    codes: set[str] = set()

    async def guess(number: int) -> None:
        chance = random.Random(number)
        for _ in range(GUESSES // GUESSERS):
            id = chance.choice([victim.id, "".join(chance.choices("abcdefghij", k=10))])
            token = JoinToken(id=id, secret="".join(chance.choices("abcdefghij234567", k=26)), pins=victim.pins)
            try:
                header, _ = await join(site.url, token, node="fresh-5")
            except (join_client.Gone, ConnectionClosed, InvalidHandshake, OSError):
                continue
            assert isinstance(header, message.Refuse), header
            codes.add(header.code)

    async with nodes_open(site):
        await asyncio.gather(*map(guess, range(GUESSERS)))
    assert codes <= {"token_unknown", "too_many"} and "token_unknown" in codes
    assert uses(site, victim) == []
    other = await noticed(site, node="fresh-6")
    assert await admitted(site, other, "fresh-6", new_key())


def frames() -> list[bytes]:
    """Of sessions, of devices, and of neither."""
    pool = [
        each
        for name in ("link-from-edge", "link-from-hub", "link-from-device")
        for each in corpus.committed(name).values()
    ]
    mutator, chance = Mutator("frame", (), pool), random.Random("no certificate")
    return [*pool, *(mutator.next(chance)[:100_000] for _ in range(FRAMES - len(pool)))]


async def test_without_a_certificate_no_frame_opens_anything(site: Site) -> None:
    """Each gets a refusal, an answer that any device may have, or the end of its connection; never a certificate."""
    before = len(site.hub.events("session_opened"))
    answers: dict[str, int] = {}
    for frame in frames():
        async with device(site.url) as peer:
            try:
                await peer.send(frame)
                header, _ = await peer.answer()
                said = header.code if isinstance(header, message.Refuse) else type(header).__name__
            except (join_client.Gone, ConnectionClosed, RemoteError):
                said = "gone"
        answers[said] = answers.get(said, 0) + 1
    # A challenge asks who came late for a proof: it opens nothing by itself.
    assert answers.keys().isdisjoint({"Welcome", "Issued"}), answers
    assert answers["identity"] > FRAMES / 3, answers
    assert len(site.hub.events("session_opened")) == before


def half_open(site: Site, number: int, hello: bytes) -> socket.socket:
    """A connection that goes only so far."""
    peer = socket.create_connection(("127.0.0.1", site.hub.link_port), timeout=60)
    match number % 4:
        case 0:
            pass
        case 1:
            peer.send(hello[:1])
        case 2:
            peer.send(hello[: len(hello) // 2])
        case _:
            peer.send(hello)  # and it never reads the answer
    return peer


def client_hello() -> bytes:
    """The first bytes of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = join_client.client_context(None).wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


async def test_half_open_handshakes_by_the_thousand_hold_up_no_node(site: Site) -> None:
    """They wait in the kernel's queue, keep a slot for seconds at most, and are gone in the end."""
    hello, peers = client_hello(), list[socket.socket]()
    try:
        for number in range(HALF_OPEN):
            peers.append(await asyncio.to_thread(half_open, site, number, hello))
        async with nodes_open(site):
            pass
    finally:
        for peer in peers:
            peer.close()
    token = await noticed(site, node="fresh-7")
    assert await admitted(site, token, "fresh-7", new_key())


async def test_certificates_of_another_time_or_authority_open_nothing(site: Site) -> None:
    """Expired, not yet valid, of a foreign authority, and of the hub's own authority for a name like a node's."""
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    foreign = await asyncio.to_thread(pki.Authority, site.folder / "foreign")
    wrong = {
        "expired": site.edges.issue("edge-8", valid=-day, begins=now - 2 * day),
        "early": site.edges.issue("edge-9", begins=now + day),
        "foreign": foreign.issue("edge-10"),
        "internal": site.internal.issue("edge-11"),
    }
    before = len(site.hub.events("session_opened"))
    for what, pair in wrong.items():
        files = tls.Files(ca=site.internal.certificate, cert=pair.certificate, key=pair.key)
        with pytest.raises((OSError, ConnectionClosed, InvalidMessage, InvalidHandshake)):
            async with connect(site.url, ssl=tls.client_context(files), compression=None) as peer:
                hello = message.Hello(node="edge-8", agent="x", store_epoch=1, fence=0, bits=0, held=0, root="0")
                await peer.send(codec.encode(hello))
                frame = await peer.recv(decode=False)
                pytest.fail(f"{what}: {msgspec.json.decode(frame[5 : 5 + int.from_bytes(frame[1:5], 'big')])}")
    assert len(site.hub.events("session_opened")) == before
    assert len(site.hub.events("certificate_refused")) >= 1
