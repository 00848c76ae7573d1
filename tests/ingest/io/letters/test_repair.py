"""A model of a table's rows and letters, played with job, backfill and repair in any order, crashing anywhere.

tests/conformance/test_repair.py has the single steps for each table format and place.
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.tables.letters_world import TOPIC, Killed, World, name, payload

from fairlead_ingest.io.letters.correction import Unrepaired
from fairlead_ingest.io.table import tables
from fairlead_ingest.table.store_path import Place

BROKEN = b"no message"
ACTS = ("job", "repair", "backfill")
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.sampled_from(["good", "unfit", "broken"]), min_size=1, max_size=4)),
    st.tuples(st.just("late"), st.sampled_from(["good", "unfit", "broken"])),
    st.tuples(st.just("mend"), st.none()),
    st.tuples(
        st.sampled_from(ACTS),
        st.tuples(
            st.sampled_from(["runs", "dies before", "dies after", "others before"]),
            st.integers(1, 3),
            st.sampled_from(["repair", "backfill"]),
        ),
    ),
)


# A batch whose letters are in and whose rows are not, while its letters begin to fit: they are the job's to bring.
BETWEEN_LETTERS_AND_ROWS: list[tuple[str, Any]] = [
    ("publish", ["unfit", "good"]),
    ("job", ("dies after", 1, "repair")),
    ("mend", None),
    ("repair", ("runs", 1, "repair")),
]


class Mended:
    """The function of a person who knows what the message was."""

    method = "function mend"
    names = None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        if letter["payload"] != BROKEN:
            raise Unrepaired("was fit to be read")
        number = next(number for number in range(1000) if name(number) == letter["_id"])
        return payload(number)


class Play:
    """One run of the model; even numbers are the job's to bring, odd ones only a backfill finds."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.world = World(tables.of(kind), folder / "rows")
        self.next = 0
        self.late = 1
        self.is_cut_short = False

    def step(self, what: str, how: Any) -> None:
        if what == "publish":
            for each in how:
                self._publish(self.next, each)
                self.next += 2
        elif what == "late":
            if self.late <= self.world.reached:
                self._publish(self.late, how)
                self.late += 2
        elif what == "mend":
            self.world.unfit.clear()
        else:
            self._act(what, *how)
        self.check()

    def _publish(self, number: int, kind: str) -> None:
        self.world.publish({number: BROKEN if kind == "broken" else payload(number)})
        if kind == "unfit":
            self.world.unfit.add(number)

    def _act(self, what: str, how: str, commit: int, other: str) -> None:
        seen = 0

        def at(do: Callable[[], None]) -> Callable[[Place], None]:
            def hook(_: Place) -> None:
                nonlocal seen
                seen += 1
                if seen == commit:
                    do()

            return hook

        def die() -> None:
            raise Killed

        def interrupt() -> None:
            undisturbed = copy.copy(self.world)
            undisturbed.format = undisturbed.real
            getattr(undisturbed, other)()

        if how == "dies before":
            self.world.before = at(die)
        elif how == "dies after":
            self.world.after = at(die)
        elif how == "others before":
            self.world.before = at(interrupt)
        try:
            if what == "job":
                self._job()
            else:
                getattr(self.world, what)()
        except Killed:
            self.is_cut_short = self.is_cut_short or what == "job"
        finally:
            self.world.before = self.world.after = lambda _: None

    def _job(self) -> None:
        upto = self.upto if self.is_cut_short else self.next - 2
        if upto <= self.world.reached:
            return
        self.upto = upto
        self.world.run_job(upto, begin_again=self.is_cut_short)
        self.is_cut_short = False

    upto = -1

    def check(self) -> None:
        """No row twice, no letter twice, no mark twice; a mark has its row."""
        rows, letters, marks = self.world.rows(), self.world.letters(), self.world.marks()
        for found in (rows, letters, marks):
            assert max(found.values(), default=1) == 1
        assert set(marks) <= set(rows) & set(letters)
        settled = {name(number) for number in self.world.payloads if not number % 2 and number <= self.world.reached}
        assert settled <= set(rows) | set(letters)

    def end(self) -> None:
        """What was cut short is gone on with, everything is mended: each message is a row, once."""
        self._job()
        self._job()
        self.world.unfit.clear()
        self.world.backfill()
        self.world.repair()
        assert self.world.repair(Mended()).is_done
        self.check()
        assert self.world.rows() == Counter(map(name, self.world.payloads))
        assert set(self.world.marks()) == set(self.world.letters())
        reached = self.world.real.reached(self.world.table).topics.get(TOPIC)
        assert (reached is None and self.world.reached < 0) or (
            reached and reached.position == name(self.world.reached)
        )


def play(kind: str, steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        game = Play(kind, Path(folder))
        for what, how in steps:
            game.step(what, how)
        game.end()


@pytest.mark.slow
@settings(max_examples=25)
@example(BETWEEN_LETTERS_AND_ROWS)
@given(st.lists(STEPS, max_size=8))
def test_every_message_becomes_one_row_whatever_happens_in_between(steps):
    play("delta", steps)


@pytest.mark.verify
@settings(max_examples=40)
@given(st.lists(STEPS, max_size=12))
def test_every_message_becomes_one_row_over_longer_plays(steps):
    play("delta", steps)
