"""A device without a certificate, on a real socket: sends what a test wants, valid or not.

async with device(url, roots) as peer:
    await peer.ask(message.AskAuthorities())        ─▶ (header, content) of the answer, or Gone
answer = await join(url, token, roots=pem, node="edge-1", key=key)
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.joining import pki
from tests.support.kube.kubernetes import Kubernetes
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fairlead_wire import message
from fairlead_wire.identity import join_token
from fairlead_wire.identity.join_token import JoinToken
from fairlead_wire.link import codec

ANSWER_SECONDS = 100.0


class Gone(Exception):
    """The hub ended the connection without an answer."""


class Device:
    """One connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, frame: bytes) -> None:
        await self.connection.send(frame)

    async def answer(self) -> tuple[message.ToDevice, bytes]:
        """The next frame.  Raises ``Gone``."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return codec.decode_to_device(await self.connection.recv(decode=False))
        except ConnectionClosed:
            raise Gone from None

    async def ask(self, header: message.FromDevice, content: bytes = b"") -> tuple[message.ToDevice, bytes]:
        try:
            await self.send(codec.encode(header, content))
        except ConnectionClosed:
            raise Gone from None
        return await self.answer()


def client_context(roots: bytes | None, alpn: str = join_token.ALPN) -> ssl.SSLContext:
    """A context without a certificate; ``roots`` None: trusts every hub."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if roots is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=roots.decode())
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


@contextlib.asynccontextmanager
async def device(
    url: str, roots: bytes | None = None, *, alpn: str = join_token.ALPN, local: str = ""
) -> AsyncIterator[Device]:
    """A connection that lasts as long as the block; ``local``: the address it comes from."""
    context, address = client_context(roots, alpn), (local, 0) if local else None
    async with connect(
        url, ssl=context, compression=None, open_timeout=ANSWER_SECONDS, local_addr=address
    ) as connection:
        yield Device(connection)


async def join(
    url: str, token: JoinToken, *, roots: bytes | None = None, node: str = "", key: Any = None, request: bytes = b""
) -> tuple[message.ToDevice, bytes]:
    """One attempt, as ``fairlead edge join`` makes it; ``request`` replaces the valid request for ``key``."""
    der = request or pki.signing_request(key or ec.generate_private_key(ec.SECP256R1()), name=node)
    async with device(url, roots) as peer:
        header = message.Join(token_id=token.id, secret=token.secret, node=node, agent="test/0")
        return await peer.ask(header, der)


def certificates(answer: tuple[message.ToDevice, bytes]) -> message.IssuedCertificates:
    """The certificates of an ``issued`` frame; fails if it is a refusal."""
    header, content = answer
    assert isinstance(header, message.Issued), header
    return msgspec.json.decode(content, type=message.IssuedCertificates)


def join_token_object(token: JoinToken, **spec: Any) -> dict[str, Any]:
    """The JoinToken to apply; without ``node`` or ``pattern`` for every name."""
    named = {} if "node" in spec else {"pattern": "*"}
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "JoinToken",
        "metadata": {"name": token.id},
        "spec": {
            "secretSHA256": join_token.hash_of(token.secret), "expires": "2099-01-01T00:00:00Z", **named, **spec,
        },
    }  # fmt: skip


def make_token(kubernetes: Kubernetes, **spec: Any) -> JoinToken:
    """Create a JoinToken in the cluster; returns its parsed text."""
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    kubernetes.apply(join_token_object(token, **spec))
    return token
