"""Marks: ids and authors, read from messages and found in runs."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from fairlead_edge.outbox import authorship, envelope
from fairlead_edge.outbox.receipts import mark

ID = "9f86d081884c7d659a2feaa0c55ad015"


def stored(id: str = ID, **properties: str | None) -> bytes:
    return envelope.stored(
        envelope.Stored(
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
    assert mark.id_of(text) is None
    assert mark.id_in(stored(text)) == mark.UNNAMED or text == ID.upper()


def test_a_stored_message_says_whose_it_is() -> None:
    """By the stamp that its module's token gave; names of modules do not differ by case."""
    assert mark.id_in(stored()) == bytes.fromhex(ID)
    assert mark.author_in(stored()) == mark.NO_AUTHOR
    signed = stored(**{authorship.MODULE: "Pump"})
    assert mark.author_in(signed) == mark.author("pump") != mark.NO_AUTHOR
    assert mark.of(signed) == mark.marker("pump")(ID)
    assert mark.id_in(b"[]") == mark.UNNAMED and mark.author_in(b"nonsense") == mark.NO_AUTHOR


def test_a_run_finds_its_messages_and_no_bytes_that_look_alike() -> None:
    """An id that begins in the middle of an entry is none."""
    one, other = bytes.fromhex(ID), bytes(range(16))
    kept = mark.kept([(0, one + b"auth"), (3, other + b"0000")])
    assert (mark.offset_of(kept, one), mark.offset_of(kept, other)) == (0, 3)
    assert mark.offset_of(kept, kept[6:22]) is None
    assert mark.by_offset(kept) == {0: one + b"auth", 3: other + b"0000"}
    assert mark.by_offset(kept[:-1]) == {0: one + b"auth"}


@pytest.mark.parametrize(
    "among", [b"[]", b"", stored("x"), stored("g" * 32), stored(ID[:-1]), stored(ID + "0"), stored("")]
)
def test_ids_of_many_are_the_ids_of_each(among: bytes) -> None:
    """Also where a message among them names none."""
    contents = [stored(f"{number:032x}") for number in range(5)]
    for place in range(len(contents) + 1):
        mixed = [*contents[:place], among, *contents[place:]]
        assert mark.ids_in(mixed) == b"".join(mark.id_in(each) for each in mixed)
    assert mark.ids_in(contents) == b"".join(mark.id_in(each) for each in contents) and mark.ids_in([]) == b""


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
        envelope.Stored(
            id=ID, source=source, enqueued_at="t", properties=properties, system_properties=signed, body=body
        )
    )
    assert mark.author_in(content) == mark.author(signed.get(authorship.MODULE) or "")
