"""What became of letters, counted."""

from __future__ import annotations

from fairlead_ingest.dead_letters import ERROR_CHARS_MAX, EXAMPLES_MAX, Still, Tally


def test_it_is_done_when_nothing_that_was_meant_is_left() -> None:
    """What the function left alone was meant to be."""
    assert Tally(letters=2, repaired=1, kept=1).is_done
    assert not Tally(unsettled=1).is_done and not Tally(unknown=1).is_done
    tally = Tally()
    for number in range(EXAMPLES_MAX + 5):
        tally.stays(Still(topic="a", id=str(number), code="misfit", error="x" * 1000))
    plain = tally.plain()
    assert (tally.is_done, plain["still"], len(plain["examples"])) == (False, {"misfit": 15}, EXAMPLES_MAX)
    assert len(plain["examples"][0]["error"]) == ERROR_CHARS_MAX
