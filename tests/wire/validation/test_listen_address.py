"""Listening addresses: what is one, and which of them only this machine reaches."""

from __future__ import annotations

import pytest

from fairlead_wire.validation.listen_address import find, is_loopback, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        ("localhost:1", ("localhost", 1)),
        ("my_host.example:65535", ("my_host.example", 65535)),
    ],
)
def test_host_and_port(text: str, expected: tuple[str, int]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":1", "host", "host:", "host:x", "ho st:1", "host:1:2", "::1:80", "host:65536", "host:²", "http://h:1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be host:port"):
        parse(text)
    [mistake] = find("listen", text)
    assert str(mistake).startswith("listen: must be host:port")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["127.example.com", "127.0.0.1.example.com", "localhost.example.com", "0.0.0.0", "::", "10.0.0.1", "127.1", ""],
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)
