"""Codes of dead letters, found in the payloads themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.rows import envelope, letter_code
from fairlead_ingest.rows.fitting import MISFITS_MAX
from fairlead_ingest.rows.letter_code import LetterCode

GOOD: dict[str, Any] = json.loads(upstream_message(1))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"id": "\xff"}', LetterCode("not_utf8")),
        (b"broken", LetterCode("not_json")),
        (b"[1]", LetterCode("not_an_object")),
        (b"[" * 600 + b"]" * 600, LetterCode("too_deep")),
        (b"{}", LetterCode("bad_field", ("id", "node", "epoch", "stream", "sequence", "body"))),
    ],
)
def test_what_is_no_upstream_message_has_a_code(payload, expected):
    assert letter_code.of(payload, ()) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", "1"), ("epoch", 2**70), ("priority", 2**40), ("enqueued_at", "yesterday"), ("properties", [1]),
        ("enqueued_at", "9999-12-31T23:59:59-10:00"), ("id", None), ("bodyBase64", 1),
    ],
)  # fmt: skip
def test_the_field_that_is_wrong_is_named(field, value):
    payload = json.dumps({**GOOD, field: value}).encode()
    assert letter_code.of_payload(payload) == LetterCode("bad_field", (field,))


def test_an_upstream_message_has_none():
    assert letter_code.of_payload(upstream_message(1)) is None
    other = {**GOOD, "bodyBase64": "AA==", "properties": None, "priority": None}
    del other["body"]
    assert letter_code.of_payload(json.dumps(other).encode()) is None
    assert letter_code.of(upstream_message(1), ()) == LetterCode("other")


def test_a_misfit_names_its_columns():
    names = [f"c{number}" for number in range(20)]
    found = letter_code.of(None, names)
    assert found == LetterCode("misfit", tuple(names[:MISFITS_MAX]))
    assert letter_code.of(None, None) == LetterCode("other")


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), st.none() | st.integers() | st.text() | st.lists(st.none())))
def test_codes_and_the_decoder_agree(changes):
    payload = json.dumps({**GOOD, **changes}).encode()
    ids, moments = pa.array([b"i" * 20], pa.binary()), pa.array([0], envelope.TIMESTAMP)
    page = envelope.page("a/t", ids, moments, pa.array([payload], pa.binary()))
    refused = page.column("_error")[0].as_py() is not None
    assert refused == (letter_code.of_payload(payload) is not None), msgspec.json.encode(changes)
