"""When a handshake may begin: while a slot is free, and none is kept for ever."""

from fairlead_hub.delivery.opening.handshake_limiter import HandshakeLimiter


def test_as_many_begin_at_once_as_there_are_slots():
    """The third waits."""
    limiter = HandshakeLimiter(slots_max=2)
    for key in (1, 2):
        assert limiter.may_begin(0.0)
        limiter.begin(key, 0.0)
    assert not limiter.may_begin(0.0)


def test_who_is_done_makes_room_for_the_next():
    """Whichever of them it is."""
    limiter = HandshakeLimiter(slots_max=2)
    limiter.begin(1, 0.0)
    limiter.begin(2, 0.0)
    limiter.end(2)
    assert limiter.may_begin(0.0)


def test_who_takes_long_goes_on_without_a_slot():
    """A silent peer holds up the others for ``slot_seconds`` and no longer; the time of the next chance is known."""
    limiter = HandshakeLimiter(slots_max=2, slot_seconds=3)
    limiter.begin(1, 0.0)
    limiter.begin(2, 1.0)
    assert not limiter.may_begin(2.9) and limiter.next_slot() == 3.0
    assert limiter.may_begin(3.0)
    limiter.begin(3, 3.0)
    assert not limiter.may_begin(3.5) and limiter.next_slot() == 4.0


def test_an_end_after_the_slot_was_given_back_frees_no_other():
    """Nor does a second end."""
    limiter = HandshakeLimiter(slots_max=1, slot_seconds=3)
    limiter.begin(1, 0.0)
    assert limiter.may_begin(3.0)
    limiter.begin(2, 3.0)
    limiter.end(1)
    limiter.end(1)
    assert not limiter.may_begin(3.0)
