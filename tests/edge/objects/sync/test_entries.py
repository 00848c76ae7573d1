"""Entries on the wire."""

from itertools import chain

import msgspec
import pytest

from fairlead_edge.objects.sync import entries
from fairlead_wire import message
from fairlead_wire.link import codec


def held(count):
    return [message.HeldEntry(f"/api/v1/namespaces/shop/configmaps/c{n}", f"u{n}", "d", "1") for n in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, [0]), (1, [1]), (entries.PER_FRAME, [entries.PER_FRAME]), (entries.PER_FRAME + 1, [entries.PER_FRAME, 1])],
)
def test_all_entries_arrive_once_and_the_last_frame_says_so(count, sizes):
    """Also where there is nothing to list, and exactly at the limit."""
    frames = list(entries.frames(9, held(count)))
    lists = [msgspec.json.decode(codec.unpack(h.encoding, c), type=list[message.HeldEntry]) for h, c in frames]
    assert [len(each) for each in lists] == sizes and list(chain.from_iterable(lists)) == held(count)
    assert [header.last for header, _ in frames] == [False] * (len(frames) - 1) + [True]
    assert {header.parent_id for header, _ in frames} == {9}
