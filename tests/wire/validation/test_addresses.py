"""What errors and logs show of addresses: hosts and paths, no password, wherever it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """Logs hand over what peers sent."""
    for text in ("a:" * 500_000, "://a:" * 200_000, "http://" + "a" * 1_000_000, "token" * 200_000):
        addresses.in_text(text[: 16 * 1024])
        addresses.shown(text[: 16 * 1024])
