"""Marks: ids and authors, read from messages and found in runs."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from fairlead_edge.outbox import authorship, envelope
from fairlead_edge.outbox.receipts import marks

ID = "9f86d081884c7d659a2feaa0c55ad015"


def stored(id: str = ID, **properties: str | None) -> bytes:
    return envelope.stored(
        envelope.StoredMessage(
            id=id,
            source="/messages",
            enqueued_at="t",
            properties={},
            system_properties=properties,
            body=msgspec.Raw(b"1"),
        )
    )


@pytest.mark.parametrize("text", ["", "x", ID.upper(), ID[:-1], ID + "0", "0" * 32, "é" * 32, ID + "\n", "a" * 10**6])
def test_only_what_publishing_answers_is_an_id(text: str) -> None:
    assert marks.id_of(text) is None
    assert marks.id_in(stored(text)) == marks.UNNAMED or text == ID.upper()


def test_a_stored_message_says_whose_it_is() -> None:
    """By the stamp that its module's token gave; names of modules do not differ by case."""
    assert marks.id_in(stored()) == bytes.fromhex(ID)
    assert marks.author_in(stored()) == marks.NO_AUTHOR
    signed = stored(**{authorship.MODULE: "Pump"})
    assert marks.author_in(signed) == marks.author("pump") != marks.NO_AUTHOR
    assert marks.of(signed) == marks.marker("pump")(ID)
    assert marks.id_in(b"[]") == marks.UNNAMED and marks.author_in(b"nonsense") == marks.NO_AUTHOR


TEXTS = st.one_of(
    st.text(max_size=9),
    st.sampled_from(
        [authorship.MODULE, f'"{authorship.MODULE}":"x"', ',"systemProperties":{', '},"body', "\\", 'p"', ""]
    ),
)
PROPERTIES = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=4)


@given(TEXTS, PROPERTIES, PROPERTIES, st.recursive(TEXTS, lambda each: st.dictionaries(TEXTS, each, max_size=3)))
def test_an_author_is_who_signed_whatever_a_message_says(
    source: str, properties: dict[str, str | None], signed: dict[str, str | None], said: object
) -> None:
    """Sources, properties and bodies that look like a stamp are none."""
    body = msgspec.Raw(msgspec.json.encode({"systemProperties": {authorship.MODULE: "thief"}, "said": said}))
    content = envelope.stored(
        envelope.StoredMessage(
            id=ID, source=source, enqueued_at="t", properties=properties, system_properties=signed, body=body
        )
    )
    assert marks.author_in(content) == marks.author(signed.get(authorship.MODULE) or "")
