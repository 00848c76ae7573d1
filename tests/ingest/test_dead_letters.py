"""Exporting and importing dead letters, selecting them, and counting the results of a repair."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest import dead_letters
from fairlead_ingest.dead_letters import ERROR_CHARS_MAX, EXAMPLES_MAX, LetterSelection, Still, Tally
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.source.offsets import Offsets, TopicOffset

NOW = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)


@given(st.binary() | st.text().map(str.encode), st.text(), st.text())
def test_what_is_exported_is_read_again_to_the_byte(payload, topic, error):
    """Text as text, anything else in base64; a line is one line."""
    letter = {"_topic": topic, "_id": "0a", "_published_at": NOW, "error": error, "payload": payload}
    written = dead_letters.encode(letter)
    assert written.endswith(b"\n") and written.count(b"\n") == 1
    assert dead_letters.decode(written) == dead_letters.Edited(topic=topic, id="0a", payload=payload)


def test_a_message_may_be_an_object():
    found = dead_letters.decode(b'{"topic": "a", "id": "0a", "payload": {"id": 1.10}, "note": "mine"}')
    assert found.payload == b'{"id": 1.10}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "malformed"),
        (b"[]", "object"),
        (b'{"topic": "a"}', "id"),
        (b'{"topic": "a", "id": "b"}', "payload_base64"),
        (b'{"topic": "a", "id": "b", "payload": "x", "payload_base64": "eA=="}', "either"),
        (b'{"topic": "a", "id": "b", "payload": 1}', "a string or an object"),
        (b'{"topic": "a", "id": "b", "payload_base64": "x"}', "not valid Base64"),
        (b'{"topic": "a", "id": "b", "payload": "\xff"}', "UTF-8"),
    ],
)
def test_what_is_no_such_line_is_refused(text, reason):
    with pytest.raises(dead_letters.BadLine, match=reason):
        dead_letters.decode(text)


MOMENTS = [datetime.datetime(2026, 11, 20, hour, tzinfo=datetime.UTC) for hour in (1, 2, 3)]
LETTERS = pa.table(
    {
        "_topic": ["n/a", "n/a", "n/b"],
        "_id": ["01", "02", "03"],
        "_published_at": pa.array(MOMENTS, TIMESTAMP),
        "code": ["misfit", None, "other"],
    }
)
TWO = int(MOMENTS[1].timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({}, ["01", "02", "03"]),
        ({"topics": {"n/a"}}, ["01", "02"]),
        ({"ids": {"03", "07"}}, ["03"]),
        ({"since_ms": TWO}, ["02", "03"]),
        ({"until_ms": TWO}, ["01"]),
        ({"codes": {"misfit"}}, ["01"]),
        ({"codes": {"unknown"}}, ["02"]),
        ({"codes": {"misfit", "other"}, "topics": {"n/b"}}, ["03"]),
    ],
)
def test_each_word_narrows(given, ids):
    chosen = LetterSelection(**given)
    assert chosen.with_codes(LETTERS.filter(chosen.condition))["_id"].to_pylist() == ids


LETTERS_SETTLED = pa.table(
    {"_topic": ["a", "a", "a", "b"], "_id": ["01", "05", "09", "01"], "_batch": [0, -1, 1, None]}
)


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        ({}, [False, True, False, False]),
        ({"a": TopicOffset.at(1, "05")}, [True, True, False, False]),
        ({"a": TopicOffset.at(1, "04")}, [True, False, False, False]),
        ({"a": TopicOffset.at(0, "04")}, [True, True, False, False]),
        ({"a": TopicOffset.at(2, ""), "b": TopicOffset.at(1, "01")}, [False, False, False, True]),
    ],
)
def test_up_to_the_tables_positions(reached, expected):
    assert dead_letters.mask(LETTERS_SETTLED, Offsets(topics=reached)).to_pylist() == expected


def test_none_is_none():
    assert dead_letters.mask(LETTERS_SETTLED.slice(0, 0), Offsets()).to_pylist() == []


def test_it_is_done_when_nothing_that_was_meant_is_left():
    assert Tally(letters=2, repaired=1, kept=1).is_done
    assert not Tally(unsettled=1).is_done and not Tally(unknown=1).is_done
    tally = Tally()
    for number in range(EXAMPLES_MAX + 5):
        tally.stays(Still(topic="a", id=str(number), code="misfit", error="x" * 1000))
    plain = tally.plain()
    assert (tally.is_done, plain["still"], len(plain["examples"])) == (False, {"misfit": 15}, EXAMPLES_MAX)
    assert len(plain["examples"][0]["error"]) == ERROR_CHARS_MAX
