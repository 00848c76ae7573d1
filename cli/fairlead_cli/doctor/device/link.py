"""Connects to the hub step by step: name, proxy, TCP, TLS, the upgrade, the hello.

    dns ─▶ proxy ─▶ tcp ─▶ tls ─▶ upgrade ─▶ hello      the first step that fails is the finding; no later step runs

Sockets are blocking, so that each step can say why it failed.  A hello is sent only while no agent runs: a hub ends the
older session of a node when a newer one begins.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import email.utils
import os
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.proxy import get_proxy
from websockets.uri import parse_uri

from fairlead_cli.doctor.device import certificates, clock
from fairlead_cli.doctor.examination import Finding, ok, problem, warning
from fairlead_edge.io.identity import join_client
from fairlead_wire import durations, message
from fairlead_wire.errors import FairleadError
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate
from fairlead_wire.io import handshake
from fairlead_wire.link import codec
from fairlead_wire.validation.listen_address import is_loopback

Step = Literal["dns", "tcp", "tls", "upgrade", "hello"]
REMEDIES: dict[str, str] = {
    "dns": "correct hub_url, or the device's DNS (/etc/resolv.conf)",
    "tcp": "check that the hub is running and that no firewall blocks this port",
    "tls": "renew the certificate named above, or set tls_ca to the right authority",
    "upgrade": "hub_url must point to the hub's listen port, and a load balancer in between must support WebSockets",
    "hello": "see the reason; fairlead doctor --cluster checks the hub's side",
}
SILENT: Final = "check the hub's log and load: either the hub hangs, or a machine in between accepts its connections"
REFUSALS: dict[str, str] = {
    "protocol": "install an agent of the hub's version; one minor version apart is supported",
    "identity": "use the certificate of this node, or correct node in the settings",
    "revoked": "this device's certificate was revoked: create a token (fairlead token create --node {node} --replace)"
    " and join again",
    "starting": "the hub has just started; try again in a moment",
    "node_unknown": "kubectl label node {node} node-role.kubernetes.io/edge=  (create the Node if it does not exist)",
    "node_deleted": "the Node was deleted; create it again, or retire this device",
    "busy": "raise [link] nodes_max of the hub",
    "stale_hub": "start the agent: it accepts this hub after [link] stale_hub_seconds (600); to accept it now, run"
    " where the cluster is administered: fairlead node approve {node}",
    "draining": "the hub is stopping; try again in a moment",
}


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """The result of connecting.  ``failed`` is the failed step, "" if all succeeded; ``reason`` says why."""

    host: str
    port: int
    addresses: tuple[str, ...] = ()
    proxy: str = ""
    """The proxy an agent with these settings uses, without its password."""
    unused_proxy: str = ""
    """A proxy is set in the environment but not used for this hub."""
    failed: Step | Literal[""] = ""
    reason: str = ""
    code: str = ""
    """The hub's refusal code; ``REFUSALS`` has the remedies."""
    hub: str = ""
    hub_certificate: Certificate | None = None
    hub_time: datetime.datetime | None = None
    silent: bool = False
    """The TCP connection was accepted, but TLS got no response."""
    greeted: bool = False
    """A hello was sent and welcomed; not tried while the agent itself is running."""
    seconds: float = 0.0


def judge(trip: Trip, now: datetime.datetime, node: str) -> Iterator[Finding]:
    """One finding for each step."""
    where = f"{trip.host}:{trip.port}"
    yield from _proxies(trip)
    if trip.failed == "dns":
        yield problem("dns", f"{trip.host} cannot be resolved: {trip.reason}", REMEDIES["dns"])
        return
    addresses = ", ".join(trip.addresses)
    yield ok("dns", f"{trip.host} resolves to {addresses}" if addresses else f"the proxy resolves {trip.host}")
    if trip.hub_certificate is not None:
        # Use the hub's clock if it is known: a wrong clock of this device is reported below.
        at, shown = trip.hub_time or now, f"the certificate of {where}"
        yield certificates.judge_one("certificate.hub", shown, trip.hub_certificate, at)
    yield from clock.judge_skew(trip.hub_time, now)
    if trip.failed:
        what = {
            "tcp": "cannot connect to",
            "tls": "TLS failed with",
            "upgrade": "the WebSocket upgrade failed with",
            "hello": "refused by",
        }
        code = f" ({trip.code})" if trip.code else ""
        remedy = _remedy(trip, now).format(node=node)
        yield problem(f"link.{trip.failed}", f"{what[trip.failed]} {where}: {trip.reason}{code}", remedy)
        return
    reached = f"{where} was reached in {trip.seconds * 1000:.0f} ms"
    if trip.greeted:
        yield ok("link", f"{reached}; hub {trip.hub} accepts this node")
    else:
        yield ok("link", f"{reached}, up to the WebSocket upgrade; no hello was sent because the agent is running")


def _remedy(trip: Trip, now: datetime.datetime) -> str:
    if trip.silent:
        return SILENT
    remedy = REFUSALS.get(trip.code, REMEDIES[trip.failed or "tls"])
    if trip.failed != "tls" or not _is_of_dates(trip.reason):
        return remedy
    if trip.hub_time is None:
        return f"if it is not {now:%Y-%m-%d %H:%M} UTC now, set this device's clock; otherwise {remedy}"
    seconds = (now - trip.hub_time).total_seconds()
    if abs(seconds) <= clock.SKEW_PROBLEM_SECONDS:
        return remedy
    side = "ahead of" if seconds > 0 else "behind"
    return f"set this device's clock: it is {durations.span(abs(seconds))} {side} the hub's"


def _is_of_dates(reason: str) -> bool:
    return "expired" in reason or "not yet valid" in reason


def _proxies(trip: Trip) -> Iterator[Finding]:
    if trip.proxy:
        text = f"this shell's environment sends the connection through proxy {trip.proxy}"
        yield warning("proxy", text, "give the agent's service the same variables, or set NO_PROXY to the hub's name")
    elif trip.unused_proxy:
        text = f"{trip.unused_proxy} is set but not used for {trip.host}: NO_PROXY or the type of address excludes it"
        yield ok("proxy", text)
    else:
        yield ok("proxy", "no proxy is set in this environment")


STEP_SECONDS: Final = 5.0
READ_BYTES: Final = 65_536
HEAD_BYTES_MAX: Final = 16_384
PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


# ── dialling the hub ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Stopped(Exception):
    """A step failed."""

    def __init__(self, step: Step, reason: str, code: str = "", *, silent: bool = False) -> None:
        super().__init__(reason)
        self.step, self.reason, self.code, self.silent = step, reason, code, silent


class _Progress:
    """What the steps have found so far."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.trip = Trip(host=parts.hostname or "", port=parts.port or (443 if parts.scheme == "wss" else 80))

    def add(self, **facts: object) -> None:
        self.trip = msgspec.structs.replace(self.trip, **facts)


def dial(url: str, context: ssl.SSLContext | None, hello: message.Hello | None) -> Trip:
    """``context``: use TLS; ``hello``: send it, and disconnect when the hub has responded."""
    progress = _Progress(url)
    started = time.monotonic()
    try:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(contextlib.closing(_connect(progress, url)))
            if context is not None:
                connection = stack.enter_context(contextlib.closing(_secure(progress, connection, context)))
            _talk(progress, connection, url, hello)
    except _Stopped as stopped:
        progress.add(failed=stopped.step, reason=stopped.reason, code=stopped.code, silent=stopped.silent)
        if stopped.step == "tls" and _is_of_dates(stopped.reason) and progress.trip.hub_time is None:
            progress.add(hub_time=_hub_time(url))
    progress.add(seconds=time.monotonic() - started)
    return progress.trip


def _hub_time(url: str) -> datetime.datetime | None:
    """The hub's time, requested without verifying the hub and without sending a certificate; None: not given."""
    progress = _Progress(url)
    with contextlib.suppress(_Stopped), contextlib.ExitStack() as stack:
        connection = stack.enter_context(contextlib.closing(_connect(progress, url)))
        _talk(
            progress,
            stack.enter_context(contextlib.closing(_secure(progress, connection, join_client.unverified()))),
            url,
            None,
        )
    return progress.trip.hub_time


def _connect(progress: _Progress, url: str) -> socket.socket:
    """A TCP connection, through the proxy that the agent would use."""
    host, port = progress.trip.host, progress.trip.port
    proxy = None if is_loopback(host) else get_proxy(parse_uri(url))
    if proxy is None:
        set_here = next((name for name in PROXY_VARIABLES if os.environ.get(name)), "")
        progress.add(unused_proxy=set_here, addresses=tuple(_resolve(host, port)))
        return _reach(host, port)
    named = urlsplit(proxy)
    progress.add(proxy=f"{named.scheme}://{named.hostname}:{named.port or 80}")
    if named.scheme != "http":
        raise _Stopped(
            "tcp", f"fairlead doctor cannot use a proxy of scheme {named.scheme}; check the agent's status instead"
        )
    tunnel = _reach(named.hostname or "", named.port or 80)
    try:
        _open_tunnel(tunnel, host, port, named.username, named.password)
    except BaseException:
        tunnel.close()
        raise
    return tunnel


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _Stopped("dns", error.strerror or str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _reach(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=STEP_SECONDS)
    except TimeoutError:
        raise _Stopped("tcp", f"no response within {STEP_SECONDS:g} s: packets are being dropped on the way") from None
    except OSError as error:
        raise _Stopped("tcp", error.strerror or str(error)) from None


def _open_tunnel(tunnel: socket.socket, host: str, port: int, user: str | None, password: str | None) -> None:
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if user:
        shown = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {shown}")
    try:
        tunnel.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
            part = tunnel.recv(1)  # what follows the head belongs to TLS
            if not part:
                break
            head += part
    except OSError as error:
        raise _Stopped("tcp", f"the proxy does not open a tunnel: {error.strerror or error}") from None
    words = head.partition(b"\r\n")[0].split()
    if len(words) < 2 or words[1] != b"200":
        status = head.partition(b"\r\n")[0].decode(errors="replace")[:80]
        raise _Stopped(
            "tcp", f"the proxy does not open a tunnel to {host}:{port}: {status or 'it closed the connection'}"
        )


def _secure(progress: _Progress, connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        secured = context.wrap_socket(connection, server_hostname=progress.trip.host)
    except ssl.SSLError as error:
        raise _Stopped("tls", _why(error)) from None
    except TimeoutError:
        text = f"the hub accepts the connection but does not respond within {STEP_SECONDS:g} s"
        raise _Stopped("tls", text, silent=True) from None
    except (OSError, ValueError) as error:
        raise _Stopped("tls", f"the peer ended the handshake: {getattr(error, 'strerror', '') or error}") from None
    if (shown := secured.getpeercert(binary_form=True)) is not None:
        with contextlib.suppress(ValueError):
            progress.add(hub_certificate=certificate.read(shown))
    return secured


def _why(error: ssl.SSLError) -> str:
    refused = handshake.refusal(error)
    return str(refused) if refused is not None else str(error.reason or error)


def _talk(progress: _Progress, connection: socket.socket, url: str, hello: message.Hello | None) -> None:
    protocol = ClientProtocol(parse_uri(url), max_size=codec.FRAME_BYTES_MAX)
    protocol.send_request(protocol.connect())
    events = _events(protocol, connection)
    response = next(events, None)
    if isinstance(response, Response):
        progress.add(hub_time=_date(response))
    if response is None and isinstance(connection, ssl.SSLSocket):
        # No alert came: older hubs and proxies close the connection without one when they refuse a certificate.
        own = getattr(connection.context, "own", None) or "unreadable"
        raise _Stopped(
            "tls",
            "the hub closed the connection after the TLS handshake; most likely"
            f" it refuses our certificate, which is {own}",
        )
    if protocol.handshake_exc is not None or not isinstance(response, Response):
        raise _Stopped("upgrade", _upgrade_failure(protocol.handshake_exc))
    if hello is None:
        return
    protocol.send_binary(codec.encode(hello))
    for event in events:
        if isinstance(event, Frame) and event.opcode is Opcode.BINARY:
            return _answered(progress, bytes(event.data))
    raise _Stopped("hello", "the hub closed the connection without a response")


def _events(protocol: ClientProtocol, connection: socket.socket) -> Iterator[object]:
    """Everything received until the other side closes the connection."""
    step: Step = "upgrade"
    while True:
        try:
            for data in protocol.data_to_send():
                if data:
                    connection.sendall(data)
            received = connection.recv(READ_BYTES)
            if received:
                protocol.receive_data(received)
            else:
                protocol.receive_eof()
        except ssl.SSLError as error:
            # In TLS 1.3 the hub verifies our certificate after the handshake is complete on our side.
            raise _Stopped("tls", _why(error)) from None
        except TimeoutError:
            raise _Stopped(step, f"no response within {STEP_SECONDS:g} s") from None
        except OSError as error:
            if step == "upgrade" and isinstance(connection, ssl.SSLSocket):
                return  # treat it as a closed connection: the hub refuses a certificate, without an alert
            raise _Stopped(step, f"the connection broke: {error.strerror or error}") from None
        except WebSocketException as error:
            raise _Stopped(step, str(error)) from None
        for event in protocol.events_received():
            yield event
            step = "hello"
        if not received or protocol.handshake_exc is not None:
            return


def _answered(progress: _Progress, frame: bytes) -> None:
    try:
        header, _ = codec.decode_from_hub(frame)
    except FairleadError as error:
        raise _Stopped("hello", f"the response cannot be read: {error}") from None
    if isinstance(header, message.Refuse):
        raise _Stopped("hello", header.reason[: message.REASON_CHARS_MAX], header.code)
    if isinstance(header, message.Welcome):
        progress.add(hub=header.hub[: message.NAME_CHARS_MAX], greeted=True)


def _upgrade_failure(error: Exception | None) -> str:
    if isinstance(error, InvalidStatus):
        return (
            f"it responded with HTTP {error.response.status_code}: it is not a hub, or it accepts no more connections"
        )
    if isinstance(error, InvalidHandshake):
        return f"the response is not that of a hub: {error}"
    return "the connection was closed; most likely it is not a hub, or a machine in between does not support WebSockets"


def _date(response: Response) -> datetime.datetime | None:
    try:
        return email.utils.parsedate_to_datetime(response.headers.get("Date", "")).astimezone(datetime.UTC)
    except (ValueError, TypeError):
        return None
