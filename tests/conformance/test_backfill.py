"""Backfills of every table format, in folders and in a store: each message is one row, also beside other writers."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.support.tables.letters_world import TOPIC, Killed, World, name, payload
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.table_formats import format_of

from fairlead_ingest import errors
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

IN_STORE = "delta in an object store"
BROKEN = {2, 5}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        yield running


# Its commits take ten times as long.
SLOW = pytest.param("iceberg", marks=pytest.mark.verify)


@pytest.fixture(params=["delta", SLOW, pytest.param(IN_STORE, marks=pytest.mark.process)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Ten messages that no job has read; 2 and 5 are no messages at all."""
    kind, table = str(request.param), tmp_path / "rows"
    found: Place = table
    if kind == IN_STORE:
        found = request.getfixturevalue("store").place(f"{uuid.uuid4().hex}/rows")
    made = World(format_of(kind.split()[0], tmp_path), found)
    made.publish({number: b"broken" if number in BROKEN else payload(number) for number in range(10)})
    return made


def names(*numbers: int) -> Counter[str]:
    return Counter(name(number) for number in numbers)


ROWS, LETTERS = names(*(set(range(10)) - BROKEN)), names(*BROKEN)


def another(world: World) -> World:
    """With the same messages, on the same table; nothing happens around its commits."""
    other = World.__new__(World)
    other.__dict__ = {**world.__dict__}
    other.format = world.real
    return other


def once(action: Callable[[], object], number: int = 1) -> Callable[[Place], None]:
    """Done around the commit of this number, by a thread of its own: what it has open is its own too."""
    seen = 0

    def do(_: Place) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            with ThreadPoolExecutor(1) as other:
                other.submit(action).result()

    return do


@pytest.mark.parametrize("commit", [1, 2])
def test_a_second_backfill_between_look_and_commit_doubles_nothing(world: World, commit: int) -> None:
    """The first commit is of letters, the second of rows."""
    world.before = once(partial(another(world).backfill, jobless=True), commit)
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)


def test_what_another_brought_in_part_is_completed(world: World) -> None:
    """Files are written anew without the rows that came meanwhile."""
    other = another(world)
    other.payloads = {number: payload(number) for number in (1, 7)} | {2: b"broken"}
    world.before = once(partial(other.backfill, jobless=True))
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)


def test_answers_that_are_lost_double_nothing(world: World) -> None:
    """The commit stands, the writer does not know: it looks, and finds its own files."""
    wait = errors.Wait(errors.STORE_AWAY, "no answer")

    def lose(_: Place) -> None:
        raise Collided("the answer is missing", unanswered=wait)

    world.after = lose
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_a_commit_the_next_backfill_ends_it(world: World, when: str) -> None:
    """Letters are in, or not; so are rows."""
    for commit in (1, 2):

        def die() -> None:
            raise Killed

        setattr(world, when, once(die, commit))
        with pytest.raises(Killed):
            world.backfill(at_a_time=4, jobless=True)
    world.before = world.after = lambda _: None
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)


def test_a_repair_beside_it_doubles_nothing(world: World) -> None:
    """A letter that becomes a row while its neighbours are filled in."""
    other = another(world)
    other.payloads = {7: payload(7)}
    other.unfit = {7}
    other.run_job(9)

    def mend() -> None:
        other.unfit = set()
        other.repair()

    world.before = once(mend, 2)
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (ROWS, names(*BROKEN, 7))


def test_a_job_that_starts_meanwhile_is_left_what_is_its_own(world: World) -> None:
    """Its first batch ends in the middle: what lies before is compared, what lies beyond is its next batch's."""
    job = another(world)
    world.before = once(lambda: job.run_job(4), 1)
    world.backfill(jobless=True)
    assert (world.rows(), world.letters()) == (names(0, 1, 3, 4), names(2, 5))
    job.run_job(9)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)
    assert world.real.reached(world.table).topics[TOPIC].position == name(9)


def test_a_job_that_planned_what_a_backfill_has_brought_is_refused(world: World) -> None:
    """It began at the start of a topic that the table did not know, and the backfill was first."""
    job = another(world)
    job.format = type(world.format)(job)
    job.before = once(partial(world.backfill, jobless=True), 2)
    with pytest.raises(errors.Stop, match=errors.TABLE_TAKEN):
        job.run_job(9)
    assert (world.rows(), world.letters()) == (ROWS, LETTERS)
