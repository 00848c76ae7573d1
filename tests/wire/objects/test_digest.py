"""Bucketed sums find differences, whatever the order they were made in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_wire.objects import digest

ENTRIES = st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=8), max_size=40)


@pytest.mark.slow
@given(ENTRIES, st.integers(0, digest.BITS_MAX))
def test_order_does_not_matter(entries, bits):
    """Two stores that hold the same agree, in whatever order they learnt it."""
    forward = digest.Buckets.of(entries.items(), bits)
    backward = digest.Buckets.of(reversed(list(entries.items())), bits)
    assert forward.root == backward.root
    assert forward.differing(backward.encode()) == []


@pytest.mark.slow
@given(ENTRIES, ENTRIES, st.integers(0, 6))
def test_every_difference_is_in_a_differing_bucket(mine, theirs, bits):
    """No entry that only one side holds hides in a bucket called equal."""
    differing = set(digest.Buckets.of(mine.items(), bits).differing(digest.Buckets.of(theirs.items(), bits).encode()))
    for uid, _content in set(mine.items()) ^ set(theirs.items()):
        assert digest.bucket_of(uid, bits) in differing


@pytest.mark.slow
@given(ENTRIES, st.integers(0, 6))
def test_discarding_undoes_adding(entries, bits):
    """A sum kept up to date by adding and taking away equals one made afresh."""
    buckets = digest.Buckets.of(entries.items(), bits)
    for uid, content in entries.items():
        buckets.discard(uid, content)
    assert buckets.root == digest.Buckets(bits).root


def test_the_same_entry_twice_is_a_difference():
    once = digest.Buckets.of([("u", "d")], 0)
    twice = digest.Buckets.of([("u", "d")] * 2, 0)
    assert once.root != twice.root
    assert twice.root != digest.Buckets(0).root


def test_sums_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        digest.Buckets(2).differing(b"\x00" * 16)
    with pytest.raises(ValueError, match="bits"):
        digest.Buckets(13)


@pytest.mark.parametrize(("entries", "bits"), [(0, 0), (8, 0), (16, 1), (17, 1), (24, 2), (10_000, 11), (10**9, 12)])
def test_granularity_follows_the_size(entries, bits):
    assert digest.bits_for(entries) == bits
