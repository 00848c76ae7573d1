"""Kept connections: which are used again, and how much is read from them."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support.joining.pki import Authority
from tests.support.kube.token_reviews import token, token_reviews
from tests.support.topics.messaging_access import entry, guarded

from fairlead_messaging.client import errors
from fairlead_messaging.client.errors import NotAllowed
from fairlead_messaging.client.io import connections
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.connections import (
    CHECK_SECONDS,
    Connections,
    Tls,
    TokenFile,
    check_options,
    check_url,
)
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.request import Response
from fairlead_wire.errors import LocalError, RemoteError
from fairlead_wire.io import tls


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connected = 0
    answer = b"[]"
    peers: ClassVar[list[str | None]] = []

    def setup(self) -> None:
        super().setup()
        type(self).connected += 1
        if isinstance(self.connection, ssl.SSLSocket):
            self.peers.append(tls.peer_name(self.connection.getpeercert()))

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        if self.path == "/close":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def listening(handler: type[_Handler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(body: bytes = b"[]", context: ssl.SSLContext | None = None) -> Iterator[tuple[str, type[_Handler]]]:
    handler = type("Handler", (_Handler,), {"answer": body, "connected": 0, "peers": []})
    with listening(handler, context) as url:
        yield url, handler


def get(asking: Connections, path: str = "/") -> Response:
    return asking.exchange("GET", path, None, {}, answer_seconds=60)


def test_a_connection_is_kept_and_used_again() -> None:
    with answering() as (url, handler):
        asking = Connections(url, tls=None)
        for _ in range(3):
            assert get(asking).body == b"[]"
        assert handler.connected == 1
        get(asking, "/close")
        get(asking)
        assert handler.connected == 2
        asking.close()


def test_a_prefix_of_the_address_is_kept() -> None:
    with answering() as (url, _):
        asking = Connections(f"{url}/close/", tls=None)
        assert asking.exchange("GET", "", None, {}, answer_seconds=60).headers["connection"] == "close"


def test_not_more_is_read_than_allowed() -> None:
    with answering(b"x" * 101) as (url, _), pytest.raises(RemoteError, match="over 100 bytes"):
        get(Connections(url, tls=None, answer_bytes_max=100))
    with answering(b"x" * 100) as (url, _):
        assert len(get(Connections(url, tls=None, answer_bytes_max=100)).body) == 100


def test_an_interrupted_exchange_gives_its_connection_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering() as (url, handler):
        asking = Connections(url, tls=None)
        get(asking)

        def interrupted(connection: http.client.HTTPConnection) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(http.client.HTTPConnection, "getresponse", interrupted)
            get(asking)
        get(asking)
        assert handler.connected == 2


def test_only_so_many_are_kept_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_MAX", 2)
    with answering() as (url, _):
        asking = Connections(url, tls=None)
        inside = threading.Barrier(4)

        def ask() -> None:
            inside.wait()
            get(asking)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(asking._idle) <= 2
        asking.close()
        assert not asking._idle


@pytest.mark.parametrize("url", ["", "localhost:1", "ftp://h", "http://", "http://h:port", "http://h:0", "http://[::1"])
def test_a_bad_address_is_refused(url: str) -> None:
    with pytest.raises(LocalError, match=r"^url must look like http://host:port, not "):
        check_url(url, has_tls=True)


def test_what_a_python_program_has_to_give_is_named() -> None:
    with pytest.raises(LocalError, match=r"^an https url needs tls=Tls\("):
        check_url("https://h:1", has_tls=False)
    with pytest.raises(TypeError, match=r"^tls must be Tls\(ca=…, cert=…, key=…\), is str$"):
        check_options("ca.pem", None)
    with pytest.raises(TypeError, match=r"^retries must be a policy such as PATIENT, is int$"):
        check_options(None, 3)


@pytest.mark.parametrize("url", ["http://user:hunter2@h", "http://hunter2@h:1", "ftp://user:hunter2@h"])
def test_a_password_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(LocalError) as refused:
        check_url(url, has_tls=True)
    assert "hunter2" not in str(refused.value)


def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=str(tmp_path)):
        Tls(ca=str(tmp_path / "ca"), cert=str(tmp_path / "cert"), key=str(tmp_path / "key")).client()


def test_replaced_certificates_are_used_for_new_connections(tmp_path: Path) -> None:
    """A bad replacement is reported, and the old ones stay; so does a connection that is kept."""
    authority = Authority(tmp_path / "pki")
    listening = authority.issue("messaging", hosts=("127.0.0.1",))
    first, second = authority.issue("first"), authority.issue("second")
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    context = tls.server_context(tls.Files(ca=authority.certificate, cert=listening.certificate, key=listening.key))
    with answering(context=context) as (url, handler):
        asking = Connections(url, tls=Tls(ca=str(authority.certificate), cert=str(cert), key=str(key)))
        get(asking, "/close")
        cert.write_bytes(b"nonsense")
        get(asking)
        cert.write_bytes(second.certificate.read_bytes())
        key.write_bytes(second.key.read_bytes())
        os.utime(cert, ns=(1, 1))  # also when the clock is too coarse to distinguish two writes
        get(asking, "/close")
        get(asking)
        asking.close()
    assert handler.peers == ["first", "first", "second"]


class _Long(_Handler):
    """Answers in chunks; cut off before the last where the path says so."""

    def do_GET(self) -> None:
        if self.path == "/refused":
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (b"abc", b"defgh", b"i"):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            if self.path == "/silent":
                self.connection.settimeout(60)
                self.rfile.read(1)  # until the client has gone
                return
        if self.path == "/cut":
            self.connection.shutdown(2)
            return
        self.wfile.write(b"0\r\n\r\n")


def test_a_long_answer_is_read_in_the_sizes_asked_for() -> None:
    with listening(_Long) as url:
        asking = Connections(url, tls=None)
        with asking.download("/", {}, piece_seconds=60) as answer:
            assert (answer.status, [answer.read(4), answer.read(4), answer.read(4)]) == (200, [b"abcd", b"efgh", b"i"])
            assert answer.read(4) == b""
        with asking.download("/cut", {}, piece_seconds=60) as answer, pytest.raises(errors.Disconnected):
            answer.read(1000)
        with asking.download("/silent", {}, piece_seconds=0.2) as answer, pytest.raises(errors.TimedOut):
            answer.read(1000)
        with asking.download("/refused", {}, piece_seconds=60) as answer:
            assert answer.status == 503


def test_a_long_answer_of_no_service() -> None:
    with listening(_Long) as url:
        pass
    with pytest.raises(errors.Unreachable, match="connection refused"):
        Connections(url, tls=None).download("/", {}, piece_seconds=60)


# --- A token that says who a client is.


def test_a_replaced_token_is_used_and_one_that_vanished_for_a_moment_stays(tmp_path: Path) -> None:
    now, path = 0.0, tmp_path / "token"
    path.write_text("first\n")
    file = TokenFile(str(path), steady=lambda: now)
    path.write_text("second\n")
    assert file.header() == {"Authorization": "Bearer first"}
    now += CHECK_SECONDS
    assert file.header() == {"Authorization": "Bearer second"}
    path.unlink()
    now += CHECK_SECONDS
    assert file.header() == {"Authorization": "Bearer second"}


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"a\r\nX-Header: b", b"x" * 9000, b"\xff"])
def test_what_is_no_token_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(LocalError, match="is no token"):
        TokenFile(str(path))
    with pytest.raises(LocalError, match="missing"):
        TokenFile(str(tmp_path / "missing"))


async def test_both_clients_need_no_certificate_where_they_have_a_token(tmp_path: Path) -> None:
    till = token("till")
    path = tmp_path / "token"
    path.write_text(till)
    async with token_reviews(tmp_path / "api") as api:
        api.users = {till: "system:serviceaccount:shop:till"}
        account = entry("serviceaccount:shop:till", "publish", "default/a")
        review = {"kubeconfig": str(api.kubeconfig)}
        async with guarded(tmp_path / "messaging", account, token_review=review) as service:
            await service.create("default/a")
            tls = Tls(ca=str(service.authority.certificate), token_file=str(path))
            async with AsyncClient(service.url, tls=tls) as client:
                await client.publish("default", "a", [b"1"])
                with pytest.raises(NotAllowed):
                    await client.publish("default", "b", [b"1"])

            def publish() -> None:
                with Client(service.url, tls=tls) as client:
                    client.publish("default", "a", [b"2"])

            await asyncio.to_thread(publish)
            assert len((await service.poll("administrator", "default/a")).body) == 2


def test_a_token_is_never_sent_without_tls(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a.b.c")
    ca = Authority(tmp_path / "pki").certificate
    tls = Tls(ca=str(ca), token_file=str(path))
    assert AsyncClient("http://127.0.0.1:1", tls=tls)._token is None
    assert Client("http://127.0.0.1:1", tls=tls)._connections._token is None
