"""What is not bytes is refused by every entry point, before anything is sent or buffered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlead_messaging.client import requests
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher, BufferedPublisher
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_messaging.client.payloads import checked_payloads
from fairlead_messaging.client.publish_buffer import PublishBuffer
from fairlead_messaging.client.script import perform
from fairlead_messaging.client.transaction import TransactionCoordinator

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("payloads", "sentence"),
    [
        (["text"], r"payloads\[0\] must be bytes, is str: use \.encode\(\)"),
        ([b"a", "12345678"], r"payloads\[1\] must be bytes, is str"),
        ([""], r"payloads\[0\] must be bytes, is str"),
        ([{"order": 1}], r"payloads\[0\] must be bytes, is dict: .*json\.dumps\(value\)\.encode\(\)"),
        ([None], r"payloads\[0\] must be bytes, is NoneType"),
        (b"abc", r"a list of bytes, is one bytes: use \[payload\]"),
        ("text", r"a list of bytes, is one str: use \[text\.encode\(\)\]"),
        ({"order": 1}, "a list of bytes, is dict"),
        (7, "a list of bytes, is int"),
    ],
)
def test_what_is_no_list_of_bytes_is_named(payloads: Any, sentence: str) -> None:
    """Text would be taken as base64, and be stored as what that decodes to."""
    with pytest.raises(TypeError, match=sentence):
        checked_payloads(payloads)


def test_all_that_holds_bytes_is_taken() -> None:
    assert checked_payloads(each for each in [b"a", b""]) == [b"a", b""]
    held: list[Any] = [bytearray(b"a"), memoryview(b"b")]
    assert checked_payloads(held) == [b"a", b"b"]
    assert checked_payloads(()) == []


async def _publish_awaiting(payloads: Any) -> None:
    async with AsyncClient(NOWHERE) as client:
        await client.publish("n", "t", payloads)


async def _offer_awaiting(payloads: Any) -> None:
    async with AsyncClient(NOWHERE) as client, AsyncBufferedPublisher(client, "n", "t", close_seconds=0) as publisher:
        publisher.publish(payloads[0])


def _offer(payloads: Any) -> None:
    with BufferedPublisher(Client(NOWHERE), "n", "t", close_seconds=0) as publisher:
        publisher.publish(payloads[0])


def _add(payloads: Any) -> None:
    work: TransactionCoordinator[Any] = TransactionCoordinator([], timeout_seconds=None)
    started = type("Started", (), {"transactionWritePointer": 1})()
    perform(work.begin(), lambda _: started)
    perform(work.add("n", "t", payloads), lambda _: None)


@pytest.mark.parametrize(
    "enter",
    [
        lambda payloads: requests.publish("n", "t", payloads),
        lambda payloads: requests.publish("n", "t", payloads, ttl_seconds=5),
        lambda payloads: requests.publish_in(1, "n", "t", payloads),
        lambda payloads: requests.store_in(1, "n", "t", payloads),
        lambda payloads: PublishBuffer("n", "t", producer_id="p", epoch=1).offer(payloads[0]),
        lambda payloads: Client(NOWHERE).publish("n", "t", payloads),
        lambda payloads: BulkClient(NOWHERE).store_in(1, "n/t", payloads),
        lambda payloads: asyncio.run(_publish_awaiting(payloads)),
        lambda payloads: asyncio.run(_offer_awaiting(payloads)),
        _offer,
        _add,
    ],
)
def test_no_entry_point_takes_text(enter: Callable[[Any], Any]) -> None:
    """Nothing listens there: what was sent would have failed otherwise."""
    with pytest.raises(TypeError, match=r"must be bytes, is str: use \.encode\(\)"):
        enter(["text"])
