"""Dead letters of every table format, in folders and in an object store: each becomes one row, and none is lost."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.tables.letters_world import MISFIT, TOPIC, Killed, World, name, payload
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.table_formats import format_of

from fairlead_ingest import errors
from fairlead_ingest.dead_letters import LetterSelection
from fairlead_ingest.io.letters import letters
from fairlead_ingest.io.letters.correction import ByFile, ByFunction
from fairlead_ingest.io.table import tables
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

IN_STORE = "delta in an object store"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as running:
        yield running


# Its commits take ten times as long; what is in a store is read by the same code.
SLOW = pytest.param("iceberg", marks=pytest.mark.verify)


@pytest.fixture(params=["delta", SLOW, pytest.param(IN_STORE, marks=pytest.mark.process)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Ten messages read: 2 and 5 are no messages at all, 7 does not fit today's rules."""
    kind, table = str(request.param), tmp_path / "rows"
    found: Place = table
    if kind == IN_STORE:
        found = request.getfixturevalue("store").place(f"{uuid.uuid4().hex}/rows")
    made = World(format_of(kind.split()[0], tmp_path), found)
    made.publish({number: b"broken %d" % number if number in (2, 5) else payload(number) for number in range(10)})
    made.unfit = {7}
    made.run_job(9)
    return made


def names(*numbers: int) -> Counter[str]:
    return Counter(name(number) for number in numbers)


def mend(folder: Path, body: str) -> ByFunction:
    path = folder / "mending.py"
    path.write_text(f"def mend(letter):\n    {body}\n")
    return ByFunction(f"{path}:mend")


def test_a_letter_that_fits_now_becomes_a_row_with_its_own_identity(world: World) -> None:
    """And stays in the dead letters, marked; a second repair has nothing left to do."""
    assert (world.rows(), world.letters()) == (names(0, 1, 3, 4, 6, 8, 9), names(2, 5, 7))
    world.unfit.clear()
    first = world.repair()
    assert (first.letters, first.repaired, dict(first.still)) == (3, 1, {"not_json": 2})
    assert not first.is_done and first.examples[0].id == name(2)
    assert (world.rows(), world.marks(), world.letters()) == (names(0, 1, 3, 4, 6, 7, 8, 9), names(7), names(2, 5, 7))
    again = world.repair()
    assert (again.letters, again.repaired, again.there) == (2, 0, 0)
    world.backfill()
    assert (world.rows(), world.letters()) == (names(0, 1, 3, 4, 6, 7, 8, 9), names(2, 5, 7))


def test_what_an_agent_reported_as_lost_becomes_no_row(tmp_path: Path) -> None:
    """A contract refused it before such a report was known as what it is; the letter stays, and says what it is."""
    lost = {"queue": "q", "from_sequence": 1, "to_sequence": 2, "count": 2, "reason": "damaged"}
    world = World(format_of("delta", tmp_path), tmp_path / "rows")
    world.publish({0: payload(0), 1: payload(1, source="/fairlead/gaps", body=lost)})
    world.unfit = {1}
    world.run_job(1)
    world.unfit.clear()
    done = world.repair()
    assert (done.repaired, dict(done.still)) == (0, {"left_out": 1}) and "gap record" in done.examples[0].error
    assert (world.rows(), world.letters(), world.marks()) == (names(0), names(1), Counter())


def test_a_function_repairs_what_it_can(world: World, tmp_path: Path) -> None:
    """It may leave a letter alone, give nonsense or fail: those stay letters, with the reason."""
    number = "int(letter['payload'].split()[1])"
    body = (
        "    if letter['code'] == 'other': return None\n"
        f"    if {number} == 5: raise KeyError('five')\n"
        f"    return {{'id': 'x', 'node': 'n', 'epoch': 1, 'stream': 's', 'sequence': {number}, 'body': 'mended'}}"
    )
    done = world.repair(mend(tmp_path, body.strip()))
    assert (done.repaired, done.kept, dict(done.still)) == (1, 1, {"failed": 1})
    assert "KeyError: 'five'" in done.examples[0].error
    assert world.bodies()[name(2)] == '"mended"'


def test_an_edited_export_repairs_the_letters_it_names(world: World, tmp_path: Path) -> None:
    """Others are not looked at; a line without a letter is counted."""
    edited = tmp_path / "edited.jsonl"
    line = {"topic": TOPIC, "id": name(5), "payload": json.loads(payload(5))}
    stranger = {"topic": TOPIC, "id": name(4), "payload": "x"}
    edited.write_text(f"{json.dumps(line)}\n\n{json.dumps(stranger)}\n")
    done = world.repair(ByFile(edited))
    assert (done.letters, done.repaired, done.unknown, done.is_done) == (1, 1, 1, False)
    assert world.marks() == names(5)


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.unfit.clear()
    before = world.rows()
    assert world.repair(dry_run=True).repaired == 1
    assert (world.rows(), world.marks()) == (before, Counter())
    assert world.real.dataset(tables.beside(world.table, tables.REPAIRS)) is None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", [1, 2])
def test_killed_at_any_commit_the_next_repair_ends_it(world: World, when: str, commit: int) -> None:
    """The first commit is the row, the second the mark."""
    world.unfit.clear()
    seen = 0

    def die(_: Place) -> None:
        nonlocal seen
        seen += 1
        if seen == commit:
            raise Killed

    setattr(world, when, die)
    with pytest.raises(Killed):
        world.repair()
    world.before = world.after = lambda _: None
    done = world.repair(selection=LetterSelection(ids=frozenset([name(7)])))
    assert done.is_done
    assert (world.rows(), world.marks()) == (names(0, 1, 3, 4, 6, 7, 8, 9), names(7))


@pytest.mark.slow
@pytest.mark.parametrize("commit", [3, 4])
def test_after_a_kill_in_a_later_window_the_next_repair_continues(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: int
) -> None:
    """What the windows before brought is there; nothing comes twice."""
    monkeypatch.setattr(letters, "WINDOW_ROWS", 1)
    body = "return {'id': 'x', 'node': 'n', 'epoch': 1, 'stream': 's', 'sequence': 1, 'body': 'mended'}"
    world.unfit.clear()
    seen = 0

    def die(_: Place) -> None:
        nonlocal seen
        seen += 1
        if seen == commit:
            raise Killed

    world.after = die
    with pytest.raises(Killed):
        world.repair(mend(tmp_path, body))
    world.after = lambda _: None
    assert sum(world.marks().values()) == commit - 2
    done = world.repair(mend(tmp_path, body))
    assert done.is_done and done.repaired + done.there == 3 - (commit - 2)
    assert (world.rows(), world.marks()) == (names(*range(10)), names(2, 5, 7))


def once(action: Callable[[], object]) -> Callable[[Place], None]:
    """What another does between looking and committing, the first time."""
    is_done = False

    def do(_: Place) -> None:
        nonlocal is_done
        if not is_done:
            is_done = True
            action()

    return do


@pytest.mark.slow
def test_two_people_at_once_make_one_row(world: World) -> None:
    """The second commits between the first one's look and its commit."""
    world.unfit.clear()
    other = World.__new__(World)
    other.__dict__ = {**world.__dict__}
    other.format = world.real
    world.before = once(other.repair)
    first = world.repair()
    assert (first.repaired, first.there) == (0, 1)
    assert (world.rows()[name(7)], world.marks()) == (1, names(7))


@pytest.mark.slow
def test_a_job_that_commits_at_the_same_moment_loses_nothing(world: World) -> None:
    """Nor does the repair: both are in, and the job's positions are its own."""
    world.unfit.clear()
    world.publish({10: payload(10), 11: b"broken"})
    world.before = once(lambda: world.run_job(11))
    assert world.repair().repaired == 1
    assert (world.rows(), world.letters()) == (names(0, 1, 3, 4, 6, 7, 8, 9, 10), names(2, 5, 7, 11))
    assert world.real.reached(world.table).topics[TOPIC].position == name(11)
    world.publish({12: payload(12)})
    world.run_job(12)
    assert world.rows()[name(12)] == 1


def test_an_answer_that_is_lost_makes_no_second_row(world: World) -> None:
    """The commit stands, the writer does not know: it looks, and finds its own row."""
    world.unfit.clear()
    wait = errors.Wait(errors.STORE_AWAY, "no answer")

    def lose() -> None:
        raise Collided("the answer is missing", unanswered=wait)

    world.after = once(lose)
    assert world.repair().is_done is False  # 2 and 5 are still no messages
    assert (world.rows()[name(7)], world.marks()) == (1, names(7))


@pytest.mark.slow
def test_letters_of_a_batch_that_is_not_in_are_left_to_the_job(world: World) -> None:
    """Its letters are committed before its rows; tried again with other rules it makes a row of one itself."""
    world.publish({10: payload(10), 11: payload(11)})
    world.unfit = {7, 11}
    seen = 0

    def die(_: Place) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise Killed

    world.before = die
    with pytest.raises(Killed):
        world.run_job(11)
    world.before = lambda _: None
    assert world.letters()[name(11)] == 1 and world.rows()[name(10)] == 0
    world.unfit.clear()
    held_back = world.repair()
    assert (held_back.unsettled, held_back.is_done, world.rows()[name(11)]) == (1, False, 0)
    world.run_job(11, begin_again=True)
    assert world.rows()[name(11)] == 1
    after = world.repair()
    assert (after.there, after.unsettled) == (1, 0)
    assert (max(world.rows().values()), world.marks()) == (1, names(7, 11))


@pytest.mark.slow
def test_a_row_that_is_gone_comes_again_only_when_asked_for(world: World) -> None:
    """A mark says that it was in; with `rechecks` the table itself is asked."""
    world.unfit.clear()
    world.repair()
    marks = tables.beside(world.table, tables.REPAIRS)
    assert [row["method"] for row in tables.existing(world.real, marks).to_table().to_pylist()] == ["judged again"]
    assert world.repair(rechecks=True).there == 1
    assert (world.rows()[name(7)], world.marks()) == (1, names(7))


def test_why_it_is_still_a_letter_is_the_reason_of_today(world: World) -> None:
    """With its code."""
    done = world.repair(selection=LetterSelection(ids=frozenset([name(7)])))
    assert (dict(done.still), done.examples[0].error) == ({"other": 1}, MISFIT)
