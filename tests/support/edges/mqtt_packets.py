"""MQTT packets as bytes, written and read without the agent's own codec."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

CONNACK, PUBLISH, PUBACK, SUBACK, UNSUBACK, PINGRESP, DISCONNECT = 2, 3, 4, 9, 11, 13, 14


def field(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(content)) + content


def packet(first: int, body: bytes) -> bytes:
    length, head = len(body), bytearray([first])
    while True:
        length, low = divmod(length, 128)
        head.append(low | (128 if length else 0))
        if not length:
            return bytes(head) + body


def properties(level: int, content: bytes = b"") -> bytes:
    if level != 5:
        return b""
    return packet(0, content)[1:]


def connect(
    client_id: str = "c",
    *,
    level: int = 4,
    clean: bool = True,
    keep_alive: int = 60,
    will: tuple[str, bytes] | None = None,
    will_properties: bytes = b"",
    will_flags: int = 0x08,
    user: str | None = None,
    password: bytes | None = None,
    more: bytes = b"",
    protocol: str = "MQTT",
) -> bytes:
    flags = (2 if clean else 0) | (0 if will is None else 4 | will_flags)
    flags |= (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    body = field(protocol) + bytes([level, flags]) + struct.pack(">H", keep_alive) + properties(level, more)
    body += field(client_id)
    if will is not None:
        body += properties(level, will_properties) + field(will[0]) + field(will[1])
    if user is not None:
        body += field(user)
    if password is not None:
        body += field(password)
    return packet(0x10, body)


def publish(
    topic: str,
    payload: bytes = b"1",
    *,
    level: int = 4,
    qos: int = 1,
    id: int = 1,
    dup: bool = False,
    retain: bool = False,
    more: bytes = b"",
) -> bytes:
    body = field(topic) + (struct.pack(">H", id) if qos else b"") + properties(level, more) + payload
    return packet(0x30 | dup << 3 | qos << 1 | retain, body)


def puback(id: int, *, level: int = 4, code: int | None = None) -> bytes:
    return packet(0x40, struct.pack(">H", id) + (b"" if code is None else bytes([code])))


def subscribe(filters: Iterable[tuple[str, int]], *, id: int = 1, level: int = 4, more: bytes = b"") -> bytes:
    wishes = b"".join(field(filter) + bytes([qos]) for filter, qos in filters)
    return packet(0x82, struct.pack(">H", id) + properties(level, more) + wishes)


def unsubscribe(filters: Sequence[str], *, id: int = 1, level: int = 4) -> bytes:
    return packet(0xA2, struct.pack(">H", id) + properties(level) + b"".join(map(field, filters)))


PINGREQ = b"\xc0\x00"
BYE = b"\xe0\x00"


class Read(NamedTuple):
    """A packet that was received."""

    kind: int
    flags: int
    body: bytes

    @property
    def id(self) -> int:
        return int.from_bytes(self.body[:2])


def split(content: bytes) -> tuple[list[Read], bytes]:
    """The complete packets at the start, and the remaining bytes."""
    found: list[Read] = []
    while len(content) >= 2:
        at, length, shift = 1, 0, 0
        while at < len(content):
            byte = content[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        else:
            break
        if at + length > len(content):
            break
        found.append(Read(content[0] >> 4, content[0] & 15, content[at : at + length]))
        content = content[at + length :]
    return found, content


class RawClient:
    """A socket that speaks packets; ``read`` waits for one, None: the agent closed the connection."""

    def __init__(self, port: int, *, seconds: float = 60.0, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(seconds)
        self.socket.connect(("127.0.0.1", port))
        self._rest = b""
        self._found: list[Read] = []

    def send(self, *packets: bytes) -> None:
        self.socket.sendall(b"".join(packets))

    def read(self) -> Read | None:
        while not self._found:
            try:
                content = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not content:
                return None
            self._found, self._rest = split(self._rest + content)
        return self._found.pop(0)

    def until_closed(self) -> list[Read]:
        found = []
        while (each := self.read()) is not None:
            found.append(each)
        return found

    def close(self) -> None:
        self.socket.close()
