"""A hub that admits devices, for tests of the device: a real server with TLS that answers as the test says.

async with JoinHub(folder) as hub:
    token = hub.token()
    hub.answers = [("refuse", "busy", 0.0)]     # what comes before it admits
"""

from __future__ import annotations

import datetime
import secrets
import ssl
from pathlib import Path
from typing import Any

import msgspec
from tests.support.joining.pki import VALID, Authority, Pair
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from fairlead_wire import message
from fairlead_wire.identity import authority_bundle, join_token
from fairlead_wire.identity.join_token import JoinToken
from fairlead_wire.link import codec


class JoinHub:
    """``internal`` signs the hub's own certificate, ``edges`` those of nodes."""

    def __init__(
        self, folder: Path, *, hosts: tuple[str, ...] = ("127.0.0.1",), valid: datetime.timedelta = VALID
    ) -> None:
        self.internal = Authority(folder / "internal", "internal authority")
        self.edges = Authority(folder / "edges", "edge authority")
        self.own = self.internal.issue("hub", hosts=hosts, valid=valid)
        self.port = 0
        self.node = "shop-17"
        self.authorities = self.internal.certificate.read_bytes()
        """What it says its authorities are."""
        self.requires_certificates = False
        """As hubs before 0.3 do, and those with ``signer = "off"``."""
        self.answers: list[tuple[Any, ...]] = []
        """Before it admits: ``("refuse", code, retry_after)``, ``("hang up",)`` when it was issued, ``("close",)``,
        ``("send", header, content)``."""
        self.protocols: list[str | None] = []
        """What clients offered in their handshakes, and it took."""
        self.seen: list[tuple[message.FromDevice, bytes]] = []
        self.issued: dict[bytes, bytes] = {}
        """By request: the same again gets the same certificate."""
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"wss://127.0.0.1:{self.port}"

    @property
    def joins(self) -> list[tuple[message.Join, bytes]]:
        return [(header, content) for header, content in self.seen if isinstance(header, message.Join)]

    def token(self) -> JoinToken:
        """A token with the right pin."""
        return join_token.make(
            secrets.token_bytes, list(authority_bundle.by_pin(self.internal.certificate.read_bytes()))
        )

    async def __aenter__(self) -> JoinHub:
        context = server_context(self.own, self.edges if self.requires_certificates else None)
        self._server = await serve(self._converse, "127.0.0.1", self.port, ssl=context, compression=None)
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _converse(self, connection: ServerConnection) -> None:
        self.protocols.append(connection.transport.get_extra_info("ssl_object").selected_alpn_protocol())
        while True:
            try:
                frame = await connection.recv(decode=False)
            except ConnectionClosed:
                return
            header, content = codec.decode_from_device(frame)
            self.seen.append((header, content))
            if isinstance(header, message.AskAuthorities):
                await connection.send(codec.encode(message.Authorities(), self.authorities))
            elif isinstance(header, message.Join):
                await self._answer(connection, header, content)

    async def _answer(self, connection: ServerConnection, header: message.Join, request: bytes) -> None:
        match self.answers.pop(0) if self.answers else ("admit",):
            case ("refuse", code, retry_after):
                await connection.send(
                    codec.encode(message.Refuse(code=code, reason="so it is", retry_after=retry_after))
                )
            case ("hang up",):
                self.certificate(request)  # issued, and the answer gets lost
                connection.transport.abort()
            case ("close",):
                await connection.close()
            case ("send", header, content):
                await connection.send(codec.encode(header, content))
            case _:
                issued = message.IssuedCertificates(
                    certificates=self.certificate(request).decode(),
                    authorities=self.internal.certificate.read_text(),
                    issuers=self.edges.certificate.read_text(),
                )
                expires = (datetime.datetime.now(datetime.UTC) + VALID).isoformat()
                answer = message.Issued(node=self.node, expires=expires, renew_after_seconds=100.0)
                await connection.send(codec.encode(answer, msgspec.json.encode(issued)))

    def certificate(self, request: bytes) -> bytes:
        if request not in self.issued:
            self.issued[request] = self.edges.certify(request, self.node, hosts=(self.node, "127.0.0.1"))
        return self.issued[request]


def server_context(own: Pair, clients: Authority | None) -> ssl.SSLContext:
    """``clients``: only certificates of this authority are accepted; None: no certificate is requested."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(own.certificate), str(own.key))
    context.set_alpn_protocols([join_token.ALPN])
    if clients is not None:
        context.load_verify_locations(str(clients.certificate))
        context.verify_mode = ssl.CERT_REQUIRED
    return context
