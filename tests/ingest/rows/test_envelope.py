"""A payload becomes a row, or a reason."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.rows import envelope

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


def page(*payloads: bytes) -> list[dict[str, object]]:
    count = len(payloads)
    found = envelope.page(
        "a/t",
        pa.array([bytes([number]) * 20 for number in range(count)], pa.binary()),
        pa.array([NOON] * count, pa.timestamp("us", tz="UTC")),
        pa.array(payloads, pa.binary()),
    )
    assert found.schema == envelope.PAGE_SCHEMA
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def test_a_message_becomes_its_columns():
    found = page(upstream_message(3, enqueued_at="2026-11-20T11:59:00.5Z"))[0]
    assert (found["id"], found["node"], found["sequence"], found["priority"]) == ("edge-1-3", "edge-1", 3, 1)
    assert found["enqueued_at"] == NOON - datetime.timedelta(seconds=59.5)
    assert (found["_topic"], found["_id"], found["_published_at"]) == ("a/t", "00" * 20, NOON)
    assert found["_error"] is None and found["_payload"] is None


@pytest.mark.parametrize(
    "body", ['{"n": 1.50, "x":[1, 2]}', '"text"', '"{\\"a\\": 1}"', "12345678901234567890.10", "null", "true", "[]"]
)
def test_a_body_keeps_its_text_to_the_letter(body):
    payload = upstream_message(1).replace(b'{"temperature": 0.1, "tags": ["a", "b"]}', body.encode())
    assert page(payload)[0]["body"] == body


def test_a_body_that_is_no_json_text_is_kept_as_base64():
    found = page(upstream_message(1, body=None, bodyBase64="AAE="))[0]
    assert json.loads(str(found["body"])) == {"bodyBase64": "AAE="}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "is empty"),
        (b'{"id": "', "truncated"),
        (b"not json", "byte"),
        (b"[]", "Expected `object`"),
        (b'{"temperature": 3}', "`id`"),
        (upstream_message(1, epoch="x"), "$.epoch"),
        (upstream_message(1, sequence=2**70), "$.sequence"),
        (upstream_message(1, enqueued_at="yesterday"), "$.enqueued_at"),
        (upstream_message(1, enqueued_at="2026-11-20T12:00:00"), "timezone"),
        (upstream_message(1, properties=[1]), "$.properties"),
        (upstream_message(1) + b"{}", "trailing"),
        (upstream_message(1).replace(b'"body"', b'"botty"'), "`body`"),
        (upstream_message(1, body="x").replace(b'"x"', b'"\xff"'), "UTF-8"),
        (b"[" * 200_000, "nested deeper than 500 levels"),
    ],
)
def test_a_bad_payload_is_kept_with_its_reason_and_alone(payload, reason):
    before, found, after = page(upstream_message(1), payload, upstream_message(2))
    assert reason in str(found["_error"])
    assert found["_payload"] == payload and found["id"] is None
    assert (before["sequence"], after["sequence"]) == (1, 2)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b" \n", "the payload is empty"),
        (b'{"v": NaN}', "JSON is malformed: NaN is not JSON (byte 6)"),
        (b'{"v": [-Infinity]}', "JSON is malformed: -Infinity is not JSON (byte 7)"),
        (b'{"v": None}', "JSON is malformed: None is not JSON (byte 6)"),
        (b'{"v": "NaN", "w": x}', "JSON is malformed: invalid character (byte 18)"),
        (b'{"v": "\\ud800"}', "JSON is malformed: a \\u escape is only half of a surrogate pair"),
        (b"\xff\xfe", "text is not UTF-8: byte 0xff (byte 0): invalid start byte"),
        (b'{"v": "\xff"}', "text is not UTF-8: byte 0xff (byte 7): invalid start byte"),
        (b"\xef\xbb\xbf{}", "JSON is malformed: it begins with a byte order mark (byte 0)"),
    ],
)
def test_what_is_no_json_is_described_by_what_is_wrong_with_it(payload, reason):
    assert page(payload)[0]["_error"] == reason


def test_what_only_describes_may_be_absent():
    found = page(b'{"id":"i","node":"n","epoch":1,"stream":"s","sequence":0,"body":1}')[0]
    assert found["_error"] is None
    assert found["source"] is None and found["properties"] is None and found["enqueued_at"] is None


def test_an_empty_page_is_an_empty_batch():
    assert page() == []


def test_a_dead_letter_found_late_says_the_same_again():
    payload = upstream_message(1, enqueued_at="2026-11-20T11:59:00Z")
    assert json.loads(envelope.payload_again(page(payload)[0])) == json.loads(payload)
