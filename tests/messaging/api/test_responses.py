"""What the service answers, as clients see it."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_messaging.api.responses import Inspected, Message, Reader


def test_a_newer_service_may_say_more() -> None:
    """Unknown fields are passed over, so a client need not be as new as the service."""
    raw = b'{"name":"r","position":"","updated_ms":1,"lag_messages":2,"lag_seconds":0.5,"new":[1]}'
    assert msgspec.json.decode(raw, type=Reader).lag_messages == 2


def test_payloads_are_bytes() -> None:
    """Base64 is the interface's business."""
    raw = b'{"id":"00","state":"visible","payload":"AP8=","published_ms":1,"ttl_seconds":1}'
    assert msgspec.json.decode(raw, type=Inspected).payload == b"\x00\xff"


@pytest.mark.parametrize(("message_id", "at"), [("0000018bcfe56800" + "0" * 24, 1_700_000_000_000), ("", 0), ("x", 0)])
def test_an_id_holds_when_it_was_published(message_id: str, at: int) -> None:
    """Its first eight bytes."""
    assert Message(id=message_id, payload=b"").published_ms == at
