"""The lean client of the API server: answers, refusals, and what it does while the server is busy, away or broken."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.joining.pki import Authority
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster.watch_health import RETRY_AFTER_SECONDS_MAX
from fairlead_hub.io.cluster import api_access, api_error, kube
from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable, ApiUnreachable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_wire.io import tls


@pytest.fixture
async def front() -> AsyncIterator[ApiFront]:
    async with ApiFront() as running:
        yield running


def b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def write_config(path: Path, cluster: dict[str, str], user: dict[str, str]) -> None:
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )


class TlsServer:
    """Answers who shows a certificate of the authority it trusts now; connections from before are cut."""

    def __init__(self, authority: Authority) -> None:
        self.answer = b"first"
        self._context = self._made(authority)
        self.port = 0

    def _made(self, authority: Authority) -> ssl.SSLContext:
        pair = authority.issue(f"server-{secrets.token_hex(2)}", hosts=("127.0.0.1",))
        return tls.server_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))

    async def start(self) -> None:
        async def handle(_: web.Request) -> web.Response:
            return web.Response(body=self.answer, headers={"Connection": "close"})

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    def turn_to(self, authority: Authority, answer: bytes) -> None:
        self._context.newest = self._made(authority)  # type: ignore[attr-defined]
        self.answer = answer


@contextlib.asynccontextmanager
async def tls_server(authority: Authority) -> AsyncIterator[TlsServer]:
    server = TlsServer(authority)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client wanted to wait between attempts; nothing waits in truth."""
    wanted: list[float] = []
    pause = asyncio.sleep

    async def note(seconds: float) -> None:
        wanted.append(seconds)
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return wanted


async def test_a_document_from_create_to_delete(client: Kube, namespace: str) -> None:
    """Against a real API server, with the kubeconfig's rights; requests are counted by method."""
    root = f"api/v1/namespaces/{namespace}/configmaps"
    await client.request("POST", root, {"metadata": {"name": "a"}, "data": {"k": "1"}})
    await client.request("PATCH", f"{root}/a", {"data": {"k": "2"}}, content_type=MERGE_PATCH)
    assert json.loads(await client.get(f"{root}/a"))["data"] == {"k": "2"}
    await client.request("DELETE", f"{root}/a")
    with pytest.raises(ApiRefused) as gone:
        await client.get(f"{root}/a")
    assert (gone.value.status, gone.value.code) == (404, "NotFound")
    assert client.requests == {"POST": 1, "PATCH": 1, "GET": 2, "DELETE": 1}


async def test_a_conflict_is_not_another_refusal(client: Kube, namespace: str) -> None:
    """409 with the server's reason; repeating the same would not help."""
    root = f"api/v1/namespaces/{namespace}/configmaps"
    await client.request("POST", root, {"metadata": {"name": "a"}})
    with pytest.raises(ApiRefused, match="already exists") as refused:
        await client.request("POST", root, {"metadata": {"name": "a"}})
    assert (refused.value.status, refused.value.code) == (409, "AlreadyExists")


async def test_a_token_that_is_not_known_is_as_if_the_server_were_away(cluster: Cluster) -> None:
    """401: tokens are renewed, so the request may come again; the token itself is never logged."""
    client = Kube(ApiAccess(cluster.server, lambda: {"Authorization": "Bearer wrong"}, ca=str(cluster.ca)))
    try:
        with pytest.raises(ApiUnavailable, match="does not accept our credentials") as refused:
            await client.request("GET", "api/v1/namespaces", attempts=1)
    finally:
        await client.close()
    assert "wrong" not in str(refused.value)


async def test_rejected_credentials_are_read_again_and_said_once(
    front: ApiFront, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """The token was renewed on disk: the second attempt has it.  Many may be rejected, one line says so."""
    caplog.set_level("INFO")
    token = ["old"]
    seen: list[str] = []

    async def look(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "new" else 401)

    front.answer_with("GET", "/a", look, times=None)
    client = Kube(ApiAccess(front.url, lambda: {"Authorization": token[0]}, renew=lambda: token.__setitem__(0, "new")))
    try:
        await asyncio.gather(client.get("a"), client.get("a"))
    finally:
        await client.close()
    assert seen == ["old", "old", "new", "new"]
    events = [record.getMessage() for record in caplog.records if "credentials" in record.getMessage()]
    assert events == ["credentials_rejected", "credentials_accepted"]


async def test_replaced_certificates_are_used_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours and the server's authority, both inside of a kubeconfig and as files; a half written file is waited out."""
    monkeypatch.setattr(kube, "CREDENTIALS_SECONDS", 0.0)
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    config = tmp_path / "kubeconfig"

    def show(authority: Authority, port: int) -> None:
        pair = authority.issue(f"hub-{port}")
        user = {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(pair.key)}
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": b64(authority.certificate)}
        write_config(config, cluster, user)

    async with tls_server(old) as first:
        show(old, first.port)
        client = Kube(api_access.load(str(config)))
        try:
            assert await client.get("version") == b"first"
            first.turn_to(new, b"second")
            with pytest.raises(ApiUnavailable):
                await client.request("GET", "version", attempts=1)
            config.write_text("{")
            with pytest.raises(ApiUnavailable):
                await client.request("GET", "version", attempts=1)
            show(new, first.port)
            assert await client.get("version") == b"second"
        finally:
            await client.close()


async def test_a_server_of_another_authority_is_not_trusted(cluster: Cluster) -> None:
    """Nothing is sent to what answers on the address."""
    client = Kube(ApiAccess(cluster.server, lambda: {"Authorization": f"Bearer {cluster.token}"}))
    try:
        with pytest.raises(ApiUnavailable, match=r"(?i)certificate"):
            await client.request("GET", "api/v1/namespaces", attempts=1)
    finally:
        await client.close()


async def test_busy_is_repeated_after_what_the_server_asks_for(front: ApiFront, waits: list[float]) -> None:
    """429 with Retry-After, within a bound."""
    front.answer("GET", "/a", status=429, headers={"Retry-After": "3"})
    front.answer("GET", "/a", status=503, headers={"Retry-After": "3600"})
    front.answer("GET", "/a", body=b"[]")
    assert await front.client().get("a") == b"[]"
    assert waits == [3.0, RETRY_AFTER_SECONDS_MAX]


async def test_a_server_that_stays_broken_is_unavailable(front: ApiFront, waits: list[float]) -> None:
    """After a few attempts that come slower and slower; what it said last is in the text."""
    front.answer("GET", "/a", status=500, body=b'{"message": "etcd is away"}', times=None)
    with pytest.raises(ApiUnavailable, match="500: etcd is away"):
        await front.client().get("a")
    assert len(front.requests) == kube.ATTEMPTS
    assert waits == [0.2, 0.4, 0.8, 1.6]


async def test_no_server_listens(waits: list[float]) -> None:
    """Unavailable, not an exception of the HTTP library."""
    client = Kube(ApiAccess("http://127.0.0.1:9", dict))
    try:
        with pytest.raises(
            ApiUnreachable, match=r"^cannot reach the API server at http://127\.0\.0\.1:9: connection refused$"
        ):
            await client.get("a")
    finally:
        await client.close()
    assert len(waits) == kube.ATTEMPTS - 1


@pytest.mark.parametrize(
    "body",
    [b"<html>no</html>", b"", b"[]", b"\xff\xfe", b'{"message":"\xff"}', b'{"x":' + b"[" * 100_000, b"x" * 10_000],
)
async def test_an_error_that_is_not_a_status_is_a_refusal_too(front: ApiFront, body: bytes) -> None:
    """Proxies and load balancers answer as they like; what is logged of it is bounded."""
    front.answer("GET", "/a", status=403, body=body)
    with pytest.raises(ApiRefused) as refused:
        await front.client().get("a")
    assert refused.value.status == 403
    assert len(str(refused.value)) < api_error.ERROR_CHARS_MAX + 100


async def test_who_we_are_is_asked_again_after_a_while(front: ApiFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """In-cluster tokens are renewed on disk; asking costs as much as a request, so not for each."""
    tokens = iter(["first", "second"])
    seen: list[str] = []

    async def look(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response()

    front.answer_with("GET", "/a", look, times=None)
    client = Kube(ApiAccess(front.url, lambda: {"Authorization": next(tokens)}))
    try:
        await client.get("a")
        await client.get("a")
        monkeypatch.setattr(kube, "CREDENTIALS_SECONDS", 0.0)
        client._headers_until = 0.0
        await client.get("a")
    finally:
        await client.close()
    assert seen == ["first", "first", "second"]


# ---- watching ------------------------------------------------------------------------------------


def streaming(*chunks: bytes, then: str = "end"):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "break":
            assert request.transport is not None
            request.transport.abort()
        elif then == "silence":
            await asyncio.Event().wait()
        return response

    return answer


async def lines(front: ApiFront, silence_seconds: float = 5.0) -> list[bytes]:
    return [line async for line in front.client().lines("a", {"watch": "1"}, silence_seconds)]


async def test_lines_are_put_together_from_whatever_chunks_come(front: ApiFront) -> None:
    """TCP knows no lines; empty ones are passed over."""
    front.answer_with("GET", "/a", streaming(b'{"a":', b'1}\n{"b":2}\n\n{"c"', b":3}\n"))
    assert await lines(front) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


async def test_a_line_without_end_is_given_up(front: ApiFront, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded before anything is parsed."""
    monkeypatch.setattr(kube, "LINE_BYTES_MAX", 1000)
    front.answer_with("GET", "/a", streaming(b"x" * 600, b"x" * 600, then="silence"))
    with pytest.raises(ApiUnavailable, match="longer than 1000 bytes"):
        await lines(front)


async def test_a_watch_that_breaks_is_unavailable(front: ApiFront) -> None:
    """What came before it was taken."""
    front.answer_with("GET", "/a", streaming(b'{"a":1}\n', then="break"))
    stream = front.client().lines("a", {}, 5.0)
    assert await anext(stream) == b'{"a":1}'
    with pytest.raises(ApiUnavailable, match="watch of a"):
        await anext(stream)


async def test_a_watch_that_says_nothing_is_given_up(front: ApiFront) -> None:
    """Half open: no bookmark, no end."""
    front.answer_with("GET", "/a", streaming(b'{"a":1}\n', then="silence"))
    with pytest.raises(ApiUnavailable):
        await lines(front, silence_seconds=0.05)


@pytest.mark.parametrize(("status", "error"), [(410, ApiRefused), (403, ApiRefused), (429, ApiUnavailable)])
async def test_a_watch_that_is_refused_says_how(front: ApiFront, status: int, error: type[Exception]) -> None:
    """Too old, not allowed, busy: each is answered in another way."""
    front.answer("GET", "/a", status=status)
    with pytest.raises(error, match=str(status)):
        await lines(front)


def test_a_proxy_of_the_environment_is_used_and_its_exceptions_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other program does."""
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert kube._proxy("https://api.example.com:6443") is None
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert kube._proxy("https://api.example.com:6443") == "http://proxy:3128"
    monkeypatch.setenv("no_proxy", "127.0.0.1,.example.com")
    assert kube._proxy("https://api.example.com:6443") is None
