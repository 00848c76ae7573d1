"""What errors and logs show of addresses: hosts and paths, no password, wherever it was written."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.request
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.joining.pki import Authority
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from fairlead_wire.validation import addresses
from fairlead_wire.validation.mistakes import shown

SECRETS = [
    "s3://AKIAX:SECRET@bucket/t",
    "s3://AKIAX:SEC/RET@bucket/t",
    "s3://bucket:SECRET/t",
    "s3://bucket:SECRET",
    "s3://bucket:12345SECRET/t",
    "s3:/bucket:SECRET/t",
    "s3:/AKIAX:SECRET@bucket/t",
    "https://SECRET@host/",
    "https://user:SEC@RET@host/",
    "https://[::1]:SECRET/",
    "wss://hub:SECRET:10000",
    "user:SECRET@host:10000",
    "https://host/?token=SECRET&x=1",
    "https://host/x?X-Amz-Signature=SECRET",
    "postgresql+psycopg://host/db?password=SECRET",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_secret_is_never_shown(address: str) -> None:
    assert "SEC" not in addresses.shown(address) and "RET" not in addresses.shown(address)
    assert "SEC" not in shown(address) and "SEC" not in shown([address]) and "SEC" not in shown({"url": address})


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("s3://KEY:x@bucket/t", "s3://[secret]@bucket/t"),
        ("s3://bucket:x/t", "s3://bucket:[secret]"),
        ("https://me@host/a?sig=x", "https://[secret]@host/a?sig=[secret]"),
        ("me:x@host", "[secret]@host"),
    ],
)
def test_what_is_left_says_which_address_it_was(address: str, found: str) -> None:
    assert addresses.shown(address) == found


@pytest.mark.parametrize(
    "address",
    [
        "wss://HUB:PORT",
        "wss://hub:<port>",
        "wss://hub:${HUB_PORT}/x",
        "s3://bucket/plant/telemetry",
        "s3://bucket/plant@2/telemetry",
        "http://127.0.0.1:8080/v1",
        "https://[::1]:8080/v1",
        "https://[fe80::1%25eth0]/",
        "https://host:/",
        "https://host?x=1",
        "sqlite:////var/lib/catalog.db",
        "/var/lib/fairlead",
        "me@host",
        "10:30",
        "",
    ],
)
def test_what_holds_no_secret_is_shown_whole(address: str) -> None:
    assert addresses.shown(address) == address


@given(st.text(max_size=200))
def test_any_text_is_shown_somehow(text: str) -> None:
    addresses.shown(text)
    addresses.in_text(text)


def test_a_text_of_megabytes_takes_no_time_that_grows_faster_than_it() -> None:
    for text in ("a:" * 500_000, "://a:" * 200_000, "http://" + "a" * 1_000_000, "token" * 200_000):
        addresses.in_text(text[: 16 * 1024])
        addresses.shown(text[: 16 * 1024])


async def _mixed_up(is_tls: bool, tmp_path: Path) -> dict[str, str]:
    """What a real server of the other kind makes of clients of several libraries."""
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0, ssl=context if is_tls else None)
    port = server.sockets[0].getsockname()[1]
    url = f"http{'' if is_tls else 's'}://127.0.0.1:{port}"
    trust = ssl.create_default_context(cafile=str(authority.certificate))
    hints = {}
    try:
        await asyncio.to_thread(urllib.request.urlopen, url, timeout=10, context=None if is_tls else trust)
    except (OSError, http.client.HTTPException) as error:
        hints["urllib"] = addresses.scheme_hint(url, error)
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trust):
            pass
    except (OSError, aiohttp.ClientError) as error:
        hints["aiohttp"] = addresses.scheme_hint(url, error)
    try:
        await connect(url.replace("http", "ws"), ssl=None if is_tls else trust)
    except (OSError, WebSocketException) as error:
        hints["websockets"] = addresses.scheme_hint(url.replace("http", "ws"), error)
    server.close()
    return hints


@pytest.mark.parametrize(
    ("is_tls", "said"), [(True, "if the server speaks TLS"), (False, "does not speak TLS on this port")]
)
async def test_the_other_scheme_is_named(is_tls: bool, said: str, tmp_path: Path) -> None:
    hints = await _mixed_up(is_tls, tmp_path)
    assert set(hints) == {"urllib", "aiohttp", "websockets"}
    assert {name: said in hint for name, hint in hints.items()} == dict.fromkeys(hints, True), hints


def test_what_is_no_mix_up_has_no_hint() -> None:
    assert addresses.scheme_hint("http://h", ConnectionRefusedError()) == ""
    assert addresses.scheme_hint("https://h", ConnectionResetError()) == ""
    assert addresses.scheme_hint("http://h", ConnectionResetError(), answered=True) == ""
