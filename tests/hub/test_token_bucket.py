"""So many a second on average, and a burst of them."""

import pytest

from fairlead_hub.token_bucket import TokenBucket


def taken(bucket, now):
    count = 0
    while bucket.has_one(now):
        bucket.take(now)
        count += 1
    return count


def test_a_burst_and_then_the_rate():
    """Full at the beginning, never fuller than the burst, whatever the time that passed."""
    bucket = TokenBucket(10, 5)
    assert taken(bucket, 100.0) == 5
    assert [taken(bucket, 100.0 + tenth / 10) for tenth in range(1, 6)] == [1] * 5
    assert taken(bucket, 1000.0) == 5


def test_it_says_when_the_next_one_is_there():
    """To the moment; after more was taken than there was, later."""
    bucket = TokenBucket(10, 1)
    assert bucket.next_at(0.0) == 0.0
    bucket.take(0.0)
    assert bucket.next_at(0.0) == pytest.approx(0.1)
    assert not bucket.has_one(0.05) and bucket.has_one(0.1)
    bucket.take(0.1, 2)
    assert bucket.next_at(0.1) == pytest.approx(0.3)


def test_what_was_not_used_is_given_back():
    """Up to the burst."""
    bucket = TokenBucket(1, 2)
    bucket.take(0.0)
    bucket.give_back()
    bucket.give_back()
    assert taken(bucket, 0.0) == 2


def test_a_clock_that_stands_still_fills_nothing():
    """Nor one that went back."""
    bucket = TokenBucket(10, 1)
    bucket.take(5.0)
    assert not bucket.has_one(5.0) and not bucket.has_one(4.0)


def test_whole_tokens_are_what_may_be_taken():
    """None where more was taken than there was."""
    bucket = TokenBucket(10, 3)
    assert bucket.whole(0.0) == 3
    bucket.take(0.0, 2.5)
    assert bucket.whole(0.0) == 0 and bucket.whole(0.05) == 1
    bucket.take(0.05, 5)
    assert bucket.whole(0.05) == 0
