"""Marks: ids and authors, read from messages and found in runs."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from tests.support.edges import stored

from fairlead_edge.outbox import authorship
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.marks import SPAN_MAX, Named, find, names

ID = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize("text", ["", "x", ID.upper(), ID[:-1], ID + "0", "0" * 32, "é" * 32, ID + "\n", "a" * 10**6])
def test_only_what_publishing_answers_is_an_id(text: str) -> None:
    assert marks.id_of(text) is None
    assert marks.id_in(stored.content(text)) == marks.UNNAMED or text == ID.upper()


def test_a_stored_message_says_whose_it_is() -> None:
    assert marks.id_in(stored.content(ID)) == bytes.fromhex(ID)
    assert marks.author_in(stored.content(ID)) == marks.NO_AUTHOR
    signed = stored.content(ID, system_properties={authorship.MODULE: "Pump"})
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


@pytest.mark.slow
@given(TEXTS, PROPERTIES, PROPERTIES, st.recursive(TEXTS, lambda each: st.dictionaries(TEXTS, each, max_size=3)))
def test_an_author_is_who_signed_whatever_a_message_says(
    source: str, properties: dict[str, str | None], signed: dict[str, str | None], said: object
) -> None:
    body = msgspec.json.encode({"systemProperties": {authorship.MODULE: "thief"}, "said": said})
    content = stored.content(ID, body, source=source, properties=properties, system_properties=signed)
    assert marks.author_in(content) == marks.author(signed.get(authorship.MODULE) or "")


IDS = st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20, unique=True)


@pytest.mark.slow
@given(IDS, st.data())
def test_each_is_found_at_its_offset_with_its_author(ids: list[bytes], data: st.DataObject) -> None:
    count = len(ids)
    offsets = sorted(data.draw(st.sets(st.integers(0, 2 * SPAN_MAX), min_size=count, max_size=count)))
    author = st.sampled_from([marks.NO_AUTHOR, b"auth", b"0000"])
    authors = data.draw(st.lists(author, min_size=count, max_size=count) | author.map(lambda one: [one] * count))
    found = names(offsets, [id + author for id, author in zip(ids, authors, strict=True)], 1.0)
    assert all(row.span < SPAN_MAX for row in found)
    for id, offset, author_of in zip(ids, offsets, authors, strict=True):
        assert [one for row in found if (one := find(row, id))] == [Named(offset, author_of)]
    other = data.draw(st.binary(min_size=16, max_size=16) | st.just((ids[0] + ids[-1])[5:21]))
    assert any(find(row, other) for row in found) == (other in ids)


def test_what_many_share_is_kept_once() -> None:
    [row] = names(range(5, 8), [bytes([n]) * 16 + b"auth" for n in range(3)], 1.0)
    assert (row.first, row.span, row.authors, row.offsets, len(row.ids)) == (5, 2, b"auth", b"", 48)
    [row] = names([5, 9], [bytes([n]) * 16 + marks.NO_AUTHOR for n in range(2)], 1.0)
    assert (row.span, row.authors, row.offsets) == (4, b"", b"\0\0\0\4")


def test_a_row_is_of_one_epoch_and_queue() -> None:
    [row] = names([5], [b"i" * 20], 1.0)
    assert len({row.checksum(1, 1), row.checksum(1, 2), row.checksum(2, 1)}) == 3
