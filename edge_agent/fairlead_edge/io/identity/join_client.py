"""The client side of joining: the conversation of a device without a valid certificate with a hub.

    async with join_client.connected(url, context, agent="0.2.0") as hub:
        pem = await hub.authorities()
        issued = await hub.join(token, node="shop-17", request=der)

``context`` is ``unverified()`` for asking which authorities the hub has, and ``verified(…)`` for everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidProxy, InvalidStatus, WebSocketException
from websockets.proxy import get_proxy
from websockets.uri import parse_uri

from fairlead_wire import message
from fairlead_wire.errors import FairleadError, plain, text_of
from fairlead_wire.identity.join_token import ALPN, JoinToken
from fairlead_wire.io import handshake
from fairlead_wire.link import codec, peer_json
from fairlead_wire.validation.listen_address import is_loopback

OPEN_SECONDS_MAX: Final = 15.0
ANSWER_SECONDS_MAX: Final = 60.0
"""Before it answers, a hub writes to the API server and may ask another program to sign."""
CLOSE_SECONDS_MAX: Final = 2.0
FRAME_BYTES_MAX: Final = 1024 * 1024
REASON_CHARS_MAX: Final = message.REASON_CHARS_MAX

_issued = msgspec.json.Decoder(message.IssuedCertificates)


class HubUnreachable(FairleadError):
    """The connection failed or broke; the text says where.

    ``refusal``: a certificate was the reason; ``hung_up``: the peer closed after TLS without an answer, as proxies do
    that require a certificate; ``no_tls``: the port is open, but does not speak TLS.
    """

    def __init__(
        self,
        text: str,
        refusal: handshake.HandshakeFailure | None = None,
        *,
        hung_up: bool = False,
        no_tls: bool = False,
    ) -> None:
        super().__init__(text)
        self.refusal = refusal
        self.hung_up = hung_up
        self.no_tls = no_tls


class RefusedByHub(FairleadError):
    """The hub refused the request.  ``retry_after`` None: retrying is useless."""

    def __init__(self, code: str, reason: str, retry_after: float | None) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class UnexpectedAnswer(FairleadError):
    """The peer does not behave like a hub."""


class IssuedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate that the hub issued."""

    node: str
    expires: str
    renew_after_seconds: float | None
    certificates: bytes
    """PEM: the node's certificate, then its chain."""
    authorities: bytes
    """PEM: the authorities of the hub's certificate."""
    issuers: bytes
    """PEM: the authorities of nodes' certificates; empty: the hub did not send them."""


def unverified() -> ssl.SSLContext:
    """A context that verifies nothing, only for asking a hub's authorities, which are then compared with a pin."""
    context = handshake.ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    return context


def verified(authorities: bytes) -> handshake.ClientContext:
    """A context that trusts these authorities (PEM) and checks the host name.  It presents no certificate."""
    context = handshake.ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authorities.decode("ascii"))
    context.set_alpn_protocols([ALPN])
    return context


@contextlib.asynccontextmanager
async def connected(url: str, context: ssl.SSLContext, *, agent: str) -> AsyncIterator[JoinClient]:
    """One connection to a hub, through the same proxy as the agent's link.  Raises ``HubUnreachable``."""
    place = urlsplit(url).netloc.rpartition("@")[2]
    dialled: list[_JoinConnection] = []

    def remembered(*args: Any, **options: Any) -> _JoinConnection:
        dialled.append(_JoinConnection(*args, **options))
        return dialled[-1]

    try:
        connection = await connect(
            url,
            ssl=context,
            compression=None,
            proxy=None if is_loopback(urlsplit(url).hostname or "") else get_proxy(parse_uri(url)),
            open_timeout=OPEN_SECONDS_MAX,
            close_timeout=CLOSE_SECONDS_MAX,
            ping_interval=None,
            max_size=FRAME_BYTES_MAX,
            create_connection=remembered,  # type: ignore[arg-type]  # any factory will do
            user_agent_header=f"fairlead-edge/{agent}",
        )
    except InvalidStatus as error:
        raise HubUnreachable(f"{place} answered HTTP {error.response.status_code}; it is not a hub") from None
    except TimeoutError:
        raise HubUnreachable(f"{place} did not answer within {OPEN_SECONDS_MAX:g} s") from None
    except InvalidProxy as error:
        raise HubUnreachable(f"{place} cannot be reached: the proxy setting is unusable: {error}") from None
    except (OSError, WebSocketException) as error:
        found = _unreachable(place, error, *(each.lost for each in dialled))
        if found.refusal is None and dialled and not dialled[-1].is_made:
            raise HubUnreachable(f"{place} accepts connections, but does not speak TLS", no_tls=True) from None
        raise found from None
    except UnicodeError:
        raise HubUnreachable(f"{place} cannot be reached: not a valid host name") from None
    except ImportError:
        raise HubUnreachable(f"{place} cannot be reached: SOCKS proxies are not supported; use an HTTP proxy") from None
    try:
        yield JoinClient(connection, agent, place)
    finally:
        await connection.close()


class JoinClient:
    """Sends one request at a time.  Raises ``RefusedByHub``, ``HubUnreachable``, ``UnexpectedAnswer``."""

    def __init__(self, connection: ClientConnection, agent: str, place: str) -> None:
        self._connection = connection
        self._agent = agent
        self._place = place

    def hub_time(self) -> datetime.datetime | None:
        """The hub's clock, from the Date header of its response to the upgrade."""
        response = self._connection.response
        try:
            said = response.headers.get("Date", "") if response is not None else ""
            return email.utils.parsedate_to_datetime(said).astimezone(datetime.UTC)
        except (ValueError, TypeError, OverflowError):
            return None

    def hub_certificate(self) -> bytes:
        """The hub's certificate (DER)."""
        side = self._connection.transport.get_extra_info("ssl_object")
        return (side.getpeercert(binary_form=True) if side is not None else None) or b""

    async def authorities(self) -> bytes:
        """The authorities of the hub's certificate (PEM), as the peer claims."""
        header, content = await self.ask(message.AskAuthorities())
        if not isinstance(header, message.Authorities):
            raise UnexpectedAnswer(f"{self._place} answered {type(header).__name__} when asked for its authorities")
        return content

    async def join(self, token: JoinToken, *, node: str, request: bytes) -> IssuedCertificate:
        """Send token and certificate request (DER); only for a connection with a verified peer."""
        header = message.Join(token_id=token.id, secret=token.secret, node=node, agent=self._agent)
        return self.issued(*await self.ask(header, request))

    def issued(self, header: message.ToDevice, content: bytes) -> IssuedCertificate:
        """The certificate in an ``issued`` frame."""
        if not isinstance(header, message.Issued):
            raise UnexpectedAnswer(f"{self._place} answered {type(header).__name__} when asked for a certificate")
        try:
            found = peer_json.decode(_issued, content)
        except FairleadError as error:
            raise UnexpectedAnswer(f"the certificate from {self._place} cannot be read: {error}") from None
        return IssuedCertificate(
            node=header.node,
            expires=header.expires,
            renew_after_seconds=header.renew_after_seconds,
            certificates=found.certificates.encode(),
            authorities=found.authorities.encode(),
            issuers=found.issuers.encode(),
        )

    async def ask(self, header: message.FromDevice, content: bytes = b"") -> tuple[message.ToDevice, bytes]:
        """Send a frame and wait for its answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self._connection.send(codec.encode(header, content))
                frame = await self._connection.recv(decode=False)
        except TimeoutError:
            raise HubUnreachable(f"{self._place} did not answer within {ANSWER_SECONDS_MAX:g} s") from None
        except (ConnectionClosed, OSError) as error:
            lost = self._connection.lost if isinstance(self._connection, _JoinConnection) else None
            raise _unreachable(self._place, error, lost) from None
        try:
            answer, body = codec.decode_to_device(frame)
        except FairleadError as error:
            raise UnexpectedAnswer(f"the answer of {self._place} cannot be read: {error}") from None
        if isinstance(answer, message.Refuse):
            raise RefusedByHub(answer.code, answer.reason[:REASON_CHARS_MAX], answer.retry_after)
        return answer, body


class _JoinConnection(ClientConnection):
    """Remembers why the connection ended, which the library does not report."""

    is_made = False
    """Whether the TLS handshake is done."""
    lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_made = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        super().connection_lost(exc)


def _unreachable(place: str, error: BaseException, *lost: BaseException | None) -> HubUnreachable:
    refused = next(filter(None, map(handshake.refusal, (error, *lost))), None)
    if refused is not None:
        return HubUnreachable(f"{place}: {refused}", refused)
    if isinstance(error, ConnectionClosed):
        return HubUnreachable(f"{place} closed the connection without an answer")
    if isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError):
        return HubUnreachable(f"{place} closed the connection after TLS without an answer", hung_up=True)
    if isinstance(error, OSError):
        return HubUnreachable(f"{place} cannot be reached: {plain(error)}")
    return HubUnreachable(f"{place} does not answer like a hub: {text_of(error)}")
