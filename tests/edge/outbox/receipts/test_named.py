"""Names of messages that were accepted together: found by an id, and by nothing that only looks like one."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.marks import SPAN_MAX, Named, find, names

IDS = st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20, unique=True)


@given(IDS, st.data())
def test_each_is_found_at_its_offset_with_its_author(ids: list[bytes], data: st.DataObject) -> None:
    """Whatever bytes ids are made of, with holes between offsets, and with authors of all kinds."""
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
    """One author, and consecutive offsets."""
    [row] = names(range(5, 8), [bytes([n]) * 16 + b"auth" for n in range(3)], 1.0)
    assert (row.first, row.span, row.authors, row.offsets, len(row.ids)) == (5, 2, b"auth", b"", 48)
    [row] = names([5, 9], [bytes([n]) * 16 + marks.NO_AUTHOR for n in range(2)], 1.0)
    assert (row.span, row.authors, row.offsets) == (4, b"", b"\0\0\0\4")


def test_a_row_is_of_one_epoch_and_queue() -> None:
    """Where offsets began anew, names of before belong to no page of now."""
    [row] = names([5], [b"i" * 20], 1.0)
    assert len({row.checksum(1, 1), row.checksum(1, 2), row.checksum(2, 1)}) == 3
