"""Opens a connection to the hub (TCP, TLS, WebSocket upgrade) and explains failures, especially of certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidMessage, InvalidStatus, WebSocketException
from websockets.proxy import get_proxy
from websockets.uri import parse_uri

from fairlead_edge.io.line_meter import LineMeter
from fairlead_edge.io.link.conversation import CLOSE_SECONDS_MAX
from fairlead_wire import errors
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.io import handshake
from fairlead_wire.io.handshake import HandshakeFailure
from fairlead_wire.link import codec
from fairlead_wire.validation import addresses
from fairlead_wire.validation.listen_address import is_loopback

DIAL_SECONDS_MAX: Final = 2.0
"""The timeout for TCP.  Where packets are dropped, the kernel retransmits after 1, 3, 7 s …, so a new attempt notices
sooner that the network is back."""
OPEN_SECONDS_MAX: Final = 10.0
"""The timeout for TLS and the upgrade, which take long at a hub to which a thousand nodes reconnect."""
TCP_NOTSENT_LOWAT: Final = 25
"""The Linux constant, which this Python's socket module does not define."""
UNSENT_BYTES_MAX: Final = 128 * 1024
"""Unsent bytes that the kernel may hold, and so the most that an urgent ack waits behind."""


class LinkUnreachable(Exception):
    """No connection was opened; the text says why.

    ``refused``: a certificate was refused; ``hung_up``: the hub closed the connection after TLS without an answer.
    """

    def __init__(self, reason: str, *, refused: HandshakeFailure | None = None, hung_up: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        self.hung_up = hung_up


class TurnedAway(Exception):
    """The hub, or a proxy in front of it, answered the upgrade with an HTTP error; ``retry_after`` in seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Dialler:
    """Opens connections to ``hub_url``.  ``agent`` is the version of the program; ``meter`` counts bytes."""

    def __init__(self, hub_url: str, *, agent: str, meter: LineMeter | None = None) -> None:
        self._hub_url, self._agent, self._meter = hub_url, agent, meter
        url = urlsplit(hub_url)
        self.host = url.hostname or ""
        self.port = url.port or (443 if url.scheme == "wss" else 80)

    async def connect(self, context: ssl.SSLContext | None) -> ClientConnection:
        """Open a connection.  Raises ``LinkUnreachable`` or ``TurnedAway``."""
        dialled: list[_Dialled] = []

        def remembered(*args: Any, **options: Any) -> _Dialled:
            dialled.append(_Dialled(*args, **options))
            return dialled[-1]

        alert_socket: socket.socket | None = None
        try:
            proxy = None if is_loopback(self.host) else get_proxy(parse_uri(self._hub_url))
            dialled_socket = None if proxy else await self._dial()
            if dialled_socket is not None and context is not None:
                alert_socket = handshake.spare(dialled_socket)
            connection = await connect(
                self._hub_url,
                sock=dialled_socket,
                ssl=context,
                compression=None,  # the codec compresses contents once for all nodes
                proxy=proxy,
                open_timeout=OPEN_SECONDS_MAX,
                close_timeout=CLOSE_SECONDS_MAX,
                ping_interval=None,  # the session's own keepalive finds a half-open link
                max_size=codec.FRAME_BYTES_MAX,
                create_connection=remembered,  # type: ignore[arg-type]  # any factory will do
                user_agent_header=f"fairlead-edge/{self._agent}",
            )
            if proxy and self._meter is not None:
                self._meter.watch(connection.transport.get_extra_info("socket"))
            return connection
        except InvalidStatus as error:
            raise _turned_away(error) from None
        except (OSError, WebSocketException, TimeoutError) as error:
            handshake.send_alert(alert_socket, handshake.refusal(error))
            raise self._unreachable(error, context, *(each.lost for each in dialled)) from error
        except UnicodeError:
            raise LinkUnreachable(f"{self.host!r} is not a valid host name: correct hub_url") from None
        except ImportError:
            raise LinkUnreachable("SOCKS proxies are not supported: set an HTTP proxy (HTTPS_PROXY), or none") from None
        finally:
            if alert_socket is not None:
                alert_socket.close()

    def _unreachable(
        self, error: BaseException, context: ssl.SSLContext | None, *lost: BaseException | None
    ) -> LinkUnreachable:
        """Explain a failure to a person at the node; a certificate's fault takes precedence over other causes."""
        refused = next(filter(None, map(handshake.refusal, (error, *lost))), None)
        if refused is not None:
            said = str(refused) if refused.ours else f"{self.host}:{self.port}: {refused}"
            return LinkUnreachable(said, refused=refused)
        url = f"{'ws' if context is None else 'wss'}://{self.host}:{self.port}"
        reason = f"{errors.plain(error)}{addresses.scheme_hint(url, error)}"
        if context is None or not isinstance(error, InvalidMessage):
            return LinkUnreachable(reason)
        if isinstance(error.__cause__, EOFError):
            # Proxies, and older hubs, close without saying that they refuse a certificate.
            own = getattr(context, "own", None)
            said = "the hub closed the connection after TLS; most likely it refuses our certificate, which is"
            reason = f"{said} {own or 'unreadable'}"
        return LinkUnreachable(reason, hung_up=True)

    async def _dial(self) -> socket.socket:
        """A TCP connection to the hub.  Raises ``OSError`` or ``TimeoutError`` of the last address tried."""
        loop = asyncio.get_running_loop()
        failure: OSError = OSError("no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            dialled = socket.socket(family, kind, protocol)
            dialled.setblocking(False)
            try:
                if sys.platform == "linux":
                    dialled.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
                if self._meter is not None:  # before connecting, because failed attempts cost packets, too
                    self._meter.watch(dialled)
                async with asyncio.timeout(DIAL_SECONDS_MAX):
                    await loop.sock_connect(dialled, address)
            except OSError as error:
                dialled.close()
                failure = error
            except BaseException:
                dialled.close()
                raise
            else:
                return dialled
        raise failure


class _Dialled(ClientConnection):
    """Remembers why the connection ended, which the library does not report during the upgrade."""

    lost: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        super().connection_lost(exc)


def _turned_away(error: InvalidStatus) -> TurnedAway:
    response = error.response
    asked = retry_after_seconds(response.headers.get("Retry-After"))
    return TurnedAway(f"the hub answered HTTP {response.status_code}", asked or 0.0)  # a date counts as 0: our own pace
