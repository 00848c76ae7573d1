"""The link's server on real sockets: who is let in, what is refused with a reason, who has frames, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import CONFIG_MAPS, FENCE, Core
from tests.support.joining.pki import Authority
from tests.support.lines.slow_link import SlowLink
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.io.link import link_server as server_module
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.settings import LinkServerSettings, WindowLimits
from fairlead_wire import message
from fairlead_wire.io import tls
from fairlead_wire.link import codec

WAIT_SECONDS = 100.0


class Served:
    """A hub's core behind a real server, on the loop's clock."""

    def __init__(self, core: Core, context: ssl.SSLContext | None, **options: Any) -> None:
        self.core, self.hub = core, core.hub
        self.stale: list[tuple[str, int]] = []
        self.is_raised = False
        self.upstream = UpstreamPublisher(core.hub, None, window=2)
        self.server = LinkServer(core.hub, self.upstream, context=context, on_stale=self._heard_stale, **options)
        self.ready, core.has_shell = ReadyLoop(core.hub, self.server), True
        self.scheme = "wss" if context else "ws"
        self.port = 0

    def _heard_stale(self, node: str, fence: int) -> bool:
        self.stale.append((node, fence))
        return self.is_raised

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def put(self, name: str, **fields: Any) -> None:
        self.core.now = asyncio.get_running_loop().time()
        self.core.put(name, **fields)

    @contextlib.asynccontextmanager
    async def node(self, name: str = "edge-1", **options: Any) -> AsyncIterator[SimulatedNode]:
        node = SimulatedNode(name, self.url, **options)
        task = asyncio.create_task(node.run())
        try:
            yield node
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def socket(
        self, *, hello: str = "", context: ssl.SSLContext | None = None
    ) -> AsyncIterator[ClientConnection]:
        """A bare connection that says what it likes; with ``hello`` it has been welcomed."""
        async with connect(self.url, ssl=context, compression=None, proxy=None, max_size=1 << 24) as socket:
            if hello:
                await socket.send(codec.encode(self.core.hello(hello)))
                assert isinstance(await heard(socket), message.Welcome)
            yield socket


async def heard(socket: ClientConnection) -> message.FromHub:
    """The next frame that is no keepalive."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            header, _ = codec.decode_from_hub(await socket.recv(decode=False))
            if not isinstance(header, message.Keepalive):
                return header


async def refused(socket: ClientConnection) -> message.Refuse:
    """A refusal, and after it the end."""
    header = await heard(socket)
    assert isinstance(header, message.Refuse), header
    async with asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    return header


@contextlib.asynccontextmanager
async def serving(
    *nodes: str,
    context: ssl.SSLContext | None = None,
    opening_seconds: float = 60.0,
    may_send: Callable[[], bool] = lambda: True,
    is_leader: Callable[[], bool] = lambda: True,
    **settings: Any,
) -> AsyncIterator[Served]:
    core = Core(*nodes, **settings).rule(CONFIG_MAPS)
    served = Served(core, context, opening_seconds=opening_seconds, may_send=may_send, is_leader=is_leader)
    served.port = await served.server.start("127.0.0.1", 0)
    try:
        yield served
    finally:
        await served.server.drain()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving("edge-1", "edge-2") as running:
        yield running


# ---- well behaved --------------------------------------------------------------------------------


async def test_a_node_gets_what_it_should_hold_and_every_change(served: Served) -> None:
    """Create, update, delete."""
    served.put("a", data={"k": "1"})
    async with served.node(keep_content=True) as node:
        await until(lambda: set(node.held) == {"configmaps/shop/a"})
        served.put("a", data={"k": "2"}, version="2")
        await until(lambda: b'"k":"2"' in node.contents["configmaps/shop/a"])
        served.core.remove(served.hub.object_cache.get("configmaps/shop/a"))  # type: ignore[arg-type]
        await until(lambda: not node.held)
    await until(lambda: not served.hub.open_sessions.by_node)


async def test_large_contents_travel_in_parts(served: Served) -> None:
    """A megabyte that does not compress arrives whole; progress is said on the way."""
    noise = random.Random(1).randbytes(500_000).hex()
    served.put("big", data={"k": noise})
    async with served.node(keep_content=True) as node:
        await until(lambda: node.contents)
        assert noise.encode() in node.contents["configmaps/shop/big"]
        assert served.server.counts.frames_sent > 2


async def test_only_the_node_that_is_concerned_gets_frames(served: Served) -> None:
    """The other node's line stays quiet."""
    async with served.node("edge-1") as one, served.node("edge-2") as other:
        await until(lambda: one.connected.is_set() and other.connected.is_set())
        served.core.rule(CONFIG_MAPS, nodeSelector={"matchLabels": {"role": "shop"}})
        served.core.node("edge-1", role="shop")
        served.put("a")
        await until(lambda: "configmaps/shop/a" in one.held)
        assert other.figures.updates == 0


@pytest.mark.slow
async def test_a_silent_node_is_given_up() -> None:
    """Half open: three keepalive intervals without a word."""
    async with serving("edge-1", link=LinkServerSettings(keepalive_seconds=0.1)) as served:
        async with served.socket(hello="edge-1") as socket, asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(ConnectionClosed):
                while True:
                    await socket.recv()
        await until(lambda: not served.hub.open_sessions.by_node)


async def test_a_hub_in_doubt_says_nothing_to_any_node() -> None:
    """Not even a keepalive: who was replaced while it was stopped must not be heard.  Then it serves again."""
    certain = True
    async with serving("edge-1", "edge-2", may_send=lambda: certain) as served:
        async with served.socket(hello="edge-1") as open_before, served.socket() as greeting:
            certain = False
            served.put("a")
            served.server.abort_all()
            for socket, frame in ((open_before, message.Keepalive()), (greeting, served.core.hello("edge-2"))):
                with contextlib.suppress(ConnectionClosed):
                    await socket.send(codec.encode(frame))
                async with asyncio.timeout(WAIT_SECONDS):
                    with pytest.raises(ConnectionClosed):
                        await socket.recv()
        await until(lambda: not served.hub.open_sessions.by_node)
        certain = True
        async with served.node() as node:
            await until(lambda: set(node.held) == {"configmaps/shop/a"})


async def test_a_hub_that_wakes_up_in_doubt_ends_the_link_instead_of_sending() -> None:
    """The change that wakes a session comes before the pause was noticed."""
    certain = True
    async with serving("edge-1", may_send=lambda: certain) as served, served.socket(hello="edge-1") as socket:
        certain = False
        served.put("a")
        async with asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(ConnectionClosed):
                await socket.recv()


async def test_draining_says_come_back_soon() -> None:
    """Connected nodes hear it, new ones too."""
    async with serving("edge-1") as served, served.socket(hello="edge-1") as socket:
        drained = asyncio.create_task(served.server.drain())
        refusal = await refused(socket)
        assert (refusal.code, refusal.retry_after) == ("draining", server_module.RETRY_WHEN_DRAINING_SECONDS)
        await drained


async def test_a_slow_reader_holds_up_itself_alone(served: Served) -> None:
    """One node stops reading; the other has everything."""
    for n in range(40):
        served.put(f"c{n}", data={"k": f"{n}" * 30_000})
    async with served.socket(hello="edge-1"), served.node("edge-2") as node:
        await until(lambda: len(node.held) == 40)


@pytest.mark.slow
async def test_a_socket_that_is_not_read_is_given_one_turn_more_than_it_holds() -> None:
    """What is not sent stays in the core, where the newest replaces it."""
    async with serving("edge-1", window=WindowLimits(bytes=1 << 28)) as served, served.socket(hello="edge-1") as socket:
        socket.transport.pause_reading()
        noise = random.Random(1).randbytes(50_000).hex()
        for n in range(200):
            served.put(f"c{n}", data={"k": f"{n}{noise}"})
        [link] = served.server._links.values()
        await until(lambda: link.socket.paused)
        session = served.hub.open_sessions.by_node["edge-1"]
        await until(lambda: not session.has_room)
        before = served.server.counts.frames_sent
        served.put("last")
        await asyncio.sleep(0.1)  # many turns
        assert served.server.counts.frames_sent == before < 200
        socket.transport.resume_reading()
        async with asyncio.timeout(WAIT_SECONDS):
            while served.server.counts.frames_sent < 200:
                await socket.recv(decode=False)


async def test_a_frame_that_cannot_be_sent_costs_its_own_node_only(served: Served) -> None:
    """A mistake of ours: that session ends, and the others of the same turn are served."""
    async with served.socket(hello="edge-1") as broken, served.node("edge-2") as node:
        await until(lambda: node.connected.is_set())
        session = served.hub.sessions.of_node("edge-1")
        assert session is not None
        link = served.server._links[session]
        refusal = message.Refuse(code="draining", reason="x" * codec.HEADER_BYTES_MAX, retry_after=1.0)
        served.hub.sessions.refuse(session, refusal)
        served.put("a")
        await until(lambda: "configmaps/shop/a" in node.held)
        await until(lambda: session not in served.server._links)
        assert link.aborted.startswith("unsendable: ")
        with pytest.raises(ConnectionClosed):
            await heard(broken)


async def test_a_node_that_asks_and_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question has an answer that waits for it in memory."""
    monkeypatch.setattr(server_module, "UNHEARD_FRAMES_MAX", 50)
    roomy = WindowLimits(bytes=1 << 26)
    async with serving("edge-1", window=roomy) as served, served.socket(hello="edge-1") as socket:
        socket.transport.pause_reading()
        for n in range(60):
            served.put(f"c{n}", data={"k": random.Random(n).randbytes(150_000).hex()})
        [link] = served.server._links.values()
        await until(lambda: link.socket.paused)
        for _ in range(60):
            await socket.send(codec.encode(message.Keepalive()))
        await until(lambda: "edge-1" not in served.core.hub.open_sessions.by_node)
        assert link.aborted.startswith("malformed: the node sent 50 frames")
        socket.transport.abort()


# ---- refused with a reason -----------------------------------------------------------------------


def frame(header: bytes) -> bytes:
    return bytes((codec.FORMAT,)) + len(header).to_bytes(4, "big") + header


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "too short"),
        (b"GET / HTTP/1.1", "wrong first byte"),
        ("text", "text where a binary frame"),
        (frame(b"{}"), "JSON"),
        (frame(b'{"operation":"hello"}'), "JSON"),
        (frame(b'{"operation":"hello","node":"\xff"}'), "JSON"),
        (frame(b'{"operation":"hello","x":' + b"[" * 60_000), "JSON"),
        (codec.encode(message.Keepalive()), "first frame must be a hello"),
        (bytes((codec.FORMAT,)) + b"\xff\xff\xff\xff", "over the limit"),
    ],
    ids=["empty", "HTTP", "text", "no header", "half a hello", "not UTF-8", "nested", "no hello", "endless header"],
)
async def test_a_first_frame_that_is_no_hello(served: Served, first: bytes | str, reason: str) -> None:
    """Refused as a protocol fault, with what was wrong, and counted."""
    async with served.socket() as socket:
        await socket.send(first)
        refusal = await refused(socket)
    assert refusal.code == "protocol" and reason in refusal.reason
    assert served.server.counts.malformed == 1 and not served.hub.open_sessions.by_node


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (b"\x00", "not a frame"),
        (frame(b'{"operation":"nonsense"}'), "JSON"),
        (codec.encode(message.Entries(parent_id=1, last=True), b"[]"), "no comparison is running"),
        (
            codec.encode(message.Hello(node="edge-1", agent="", store_epoch=1, fence=0, bits=0, held=0, root="")),
            "hello",
        ),
        (codec.encode(message.Status(), b'{"held":1,"routes":{"\xff":null}}'), "JSON"),
    ],
    ids=["bytes", "unknown verb", "unasked", "second hello", "hostile status"],
)
async def test_a_later_frame_that_may_not_come(served: Served, later: bytes, reason: str) -> None:
    """The session ends with the reason; the server goes on."""
    async with served.socket(hello="edge-1") as socket:
        await socket.send(later)
        refusal = await refused(socket)
    assert refusal.code == "protocol" and reason in refusal.reason
    await until(lambda: not served.hub.open_sessions.by_node)
    async with served.node() as node:
        await until(node.connected.is_set)


async def test_an_oversized_frame_is_not_read(served: Served) -> None:
    """The announced length is enough to end the connection."""
    head = bytes((0x82, 0xFF)) + (codec.FRAME_BYTES_MAX + 1).to_bytes(8, "big") + b"mask"
    async with served.socket(hello="edge-1") as socket, asyncio.timeout(WAIT_SECONDS):
        socket.transport.write(head)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009, "message too big"
    await until(lambda: not served.hub.open_sessions.by_node)


async def test_who_says_nothing_is_closed() -> None:
    """A connection costs nothing for longer than an opening may take."""
    async with serving("edge-1", opening_seconds=0.05) as served:
        async with served.socket() as socket, asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        assert served.server.counts.openings_failed == {"deadline": 1}


@pytest.mark.parametrize(
    ("hello", "code"), [({"node": "stranger"}, "node_unknown"), ({"protocol": 2}, "protocol"), ({}, "stale_hub")]
)
async def test_a_hello_that_is_not_served(served: Served, hello: dict[str, Any], code: str) -> None:
    """Unknown node, other protocol, an edge that obeyed a newer hub."""
    fields = {"node": "edge-1", **hello}
    fence = FENCE + 5 if code == "stale_hub" else 0
    async with served.socket() as socket:
        await socket.send(codec.encode(served.core.hello(fields.pop("node"), fence=fence, **fields)))
        refusal = await refused(socket)
    assert refusal.code == code and refusal.retry_after
    assert served.stale == ([("edge-1", FENCE + 5)] if code == "stale_hub" else [])
    assert refusal.fence == (FENCE if code == "stale_hub" else None)


async def test_a_hub_that_may_have_lost_its_lease_names_no_fence() -> None:
    """A node that has obeyed a newer one must not follow it, however long."""
    async with serving("edge-1", is_leader=lambda: False) as served, served.socket() as socket:
        await socket.send(codec.encode(served.core.hello("edge-1", fence=FENCE + 5)))
        refusal = await refused(socket)
    assert refusal.fence is None and refusal.retry_after == 1.0, "it finds the newer one soon"


async def test_a_node_comes_back_soon_when_our_number_is_about_to_be_raised(served: Served) -> None:
    """Else it tries rarely: each attempt costs a handshake."""
    for served.is_raised in (False, True):
        async with served.socket() as socket:
            await socket.send(codec.encode(served.core.hello("edge-1", fence=FENCE + 5)))
            assert (await refused(socket)).retry_after == (1.0 if served.is_raised else 10.0)


async def test_only_a_node_that_would_be_welcome_is_a_witness(served: Served) -> None:
    """One whose Node was deleted hears of that, and what it says of fencing numbers is not asked for."""
    async with served.socket() as socket:
        await socket.send(codec.encode(served.core.hello("stranger", fence=FENCE + 5)))
        refusal = await refused(socket)
    assert (refusal.code, refusal.fence, served.stale) == ("node_unknown", None, [])


async def test_upstream_without_messaging_is_not_now(served: Served) -> None:
    """A temporary nack, so that the edge keeps its messages."""
    async with served.socket(hello="edge-1") as socket:
        await socket.send(codec.encode(message.Upstream(id=1, stream="s"), b"[]"))
        answer = await heard(socket)
        assert isinstance(answer, message.Nack) and not answer.permanent and answer.retry_after


@pytest.mark.slow
async def test_a_message_that_takes_long_to_arrive_is_a_sign_of_life_and_is_answered_with_one() -> None:
    """On a thin line one batch takes longer than the silence that ends a session: it may not be taken for dead."""
    async with (
        serving("edge-1", link=LinkServerSettings(keepalive_seconds=0.4)) as served,
        SlowLink(served.port, bytes_per_second=40_000) as line,
        connect(line.url, compression=None, proxy=None) as socket,
    ):
        await socket.send(codec.encode(served.core.hello("edge-1")))
        assert isinstance(await heard(socket), message.Welcome)
        sending = asyncio.create_task(
            socket.send(codec.encode(message.Upstream(id=1, stream="s"), random.Random(1).randbytes(100_000)))
        )
        keepalives = 0
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                header, _ = codec.decode_from_hub(await socket.recv(decode=False))
                if not isinstance(header, message.Keepalive):
                    break
                keepalives += 1
        await sending
        assert isinstance(header, message.Nack), header
        assert keepalives >= 3, "it heard that the hub is there while it could not ask"


# ---- mutual TLS ----------------------------------------------------------------------------------


class Pki:
    def __init__(self, folder: Path) -> None:
        self._ours, self._other = Authority(folder / "ours"), Authority(folder / "other", "another authority")

    def _files(self, authority: Authority, name: str, ca: Authority | None = None, uri: str = "") -> tls.Files:
        pair = authority.issue(name, hosts=("127.0.0.1",), uri=uri)
        return tls.Files(ca=(ca or authority).certificate, cert=pair.certificate, key=pair.key)

    def server(self) -> ssl.SSLContext:
        return tls.server_context(self._files(self._ours, "hub"))

    def client(self, name: str, *, stranger: bool = False, uri: str = "") -> ssl.SSLContext:
        """``stranger``: a certificate of another authority, for a server of ours."""
        return tls.client_context(self._files(self._other if stranger else self._ours, name, ca=self._ours, uri=uri))

    def without_certificate(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._ours.certificate))


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


async def test_the_certificate_says_who_a_node_is(pki: Pki) -> None:
    """With its own it is served."""
    async with serving("edge-1", context=pki.server()) as served:
        served.put("a")
        async with served.node("edge-1", context=pki.client("edge-1")) as node:
            await until(lambda: node.held)


async def test_no_node_may_speak_for_another(pki: Pki) -> None:
    """The hello names another than the certificate."""
    async with serving("edge-1", "edge-2", context=pki.server()) as served:
        async with served.socket(context=pki.client("edge-2")) as socket:
            await socket.send(codec.encode(served.core.hello("edge-1")))
            assert (await refused(socket)).code == "identity"
        assert not served.hub.open_sessions.by_node


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("spiffe://fairlead/hub/edge-1", "the role of hub edge-1"),
        ("spiffe://fairlead/node/edge-2", "the role of node edge-2"),
        ("spiffe://fairlead/node", "the role of none that we know"),
        ("spiffe://fairlead", "the role of none that we know"),
    ],
)
async def test_a_certificate_of_another_role_is_no_node(pki: Pki, uri: str, said: str) -> None:
    """Although it is named like one, and signed by the same authority."""
    async with serving("edge-1", context=pki.server()) as served:
        async with served.socket(context=pki.client("edge-1", uri=uri)) as socket:
            await socket.send(codec.encode(served.core.hello("edge-1")))
            refusal = await refused(socket)
        assert refusal.code == "identity" and said in refusal.reason
        assert not served.hub.open_sessions.by_node


@pytest.mark.parametrize("length", [64, 65, 253])
async def test_a_name_may_be_as_long_as_a_nodes(pki: Pki, length: int) -> None:
    """Above 64 characters it is no common name, and stands in the first DNS name."""
    label = "a" * 63 + "."
    name = (label * 4)[:length].rstrip(".").ljust(length, "b")
    uri = f"spiffe://fairlead/node/{name}"
    async with serving(name, context=pki.server()) as served:
        served.put("a")
        async with served.node(name, context=pki.client(name, uri=uri)) as node:
            await until(lambda: node.held)
        bound = served.hub.identities.status(name)
        assert bound is not None and bound["issuer"] == "fairlead test authority"


@pytest.mark.parametrize("who", ["stranger", "none"])
async def test_a_wrong_certificate_or_none_gets_nowhere(pki: Pki, who: str) -> None:
    """Another authority's, or no certificate at all: the handshake ends before a frame is read."""
    context = pki.without_certificate() if who == "none" else pki.client("edge-1", stranger=True)
    async with serving("edge-1", context=pki.server()) as served:
        with pytest.raises((OSError, ConnectionClosed, InvalidHandshake)):
            async with asyncio.timeout(WAIT_SECONDS), served.socket(context=context) as socket:
                await socket.send(codec.encode(served.core.hello("edge-1")))
                await socket.recv()
        assert served.server.counts.frames_received == 0 and not served.hub.open_sessions.by_node


async def test_plain_text_on_a_tls_port_gets_nowhere(pki: Pki) -> None:
    """And the server goes on."""
    async with serving("edge-1", context=pki.server()) as served:
        with pytest.raises((OSError, ConnectionClosed, InvalidHandshake)):
            async with asyncio.timeout(WAIT_SECONDS), connect(f"ws://127.0.0.1:{served.port}", proxy=None):
                pass
        async with served.node("edge-1", context=pki.client("edge-1")) as node:
            await until(node.connected.is_set)
