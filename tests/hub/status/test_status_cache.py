"""Documents written behind: the newest wins, one write at a time."""

from typing import Any

import pytest

from fairlead_hub.status.status_cache import WRITES_MAX, Observed, Removal, StatusCache, StatusDocument

NAME = ("objectsyncs", "shop", "edge-1.u")


class Note(StatusDocument, frozen=True, kw_only=True):
    """A document whose status is one word."""

    state: Any
    created: bool = True

    def head(self) -> dict[str, Any] | None:
        return {} if self.created else None

    def status(self, observed: Observed | None) -> dict[str, Any]:
        return {"state": self.state}


def document(state, name=NAME, created=True):
    return Note(name=name, node="edge-1", state=state, created=created)


def observed(version="1", **status):
    return Observed(version=version, generation=1, status=status, head={})


def take(cache, now=0.0):
    return [write.wanted for write in cache.take(now)]


def test_newest_wish_wins():
    """Twenty changes before the disk of the API server is free are one write."""
    cache = StatusCache()
    for n in range(20):
        cache.want(document(n))
    [taken] = take(cache)
    assert taken.status(None) == {"state": 19}
    assert take(cache) == []


def test_one_write_at_a_time_for_each_name():
    """A wish that comes while one is being written waits for it."""
    cache = StatusCache()
    cache.want(document("a"))
    [first] = take(cache)
    cache.want(document("b"))
    assert take(cache) == []
    cache.wrote(first, observed())
    [second] = take(cache)
    assert second.status(None) == {"state": "b"}
    assert len(cache) == 1


def test_a_failed_write_is_wanted_again_unless_something_newer_is():
    """Nothing old overwrites something new."""
    cache = StatusCache()
    cache.want(document("a"))
    [first] = take(cache)
    cache.want(document("b"))
    cache.failed(first, 0.0)
    [retried] = take(cache)
    assert retried.status(None) == {"state": "b"}
    cache.failed(retried, 0.0)
    assert len(cache) == 1


def test_a_record_deleted_by_hand_is_noticed_and_our_own_removal_is_not():
    """It may have to be written again."""
    cache = StatusCache()
    cache.observe(NAME, "edge-1", observed())
    assert cache.vanished(NAME, "edge-1")
    assert not cache.vanished(NAME, "edge-1")
    cache.observe(NAME, "edge-1", observed())
    cache.want(Removal(name=NAME, node="edge-1"))
    [removal] = take(cache)
    assert not cache.vanished(NAME, "edge-1")
    cache.wrote(removal, None)
    assert cache.of_node("edge-1") == [] and cache.nodes() == []


def test_what_waits_to_be_written_is_of_its_node_too():
    """Until it is written, or not wanted any more."""
    cache = StatusCache()
    cache.want(document("a"))
    assert cache.of_node("edge-1") == [NAME]
    cache.cancel(NAME)
    assert cache.nodes() == []
    cache.want(document("a"))
    [taken] = take(cache)
    cache.want(document("b"))
    assert not cache.vanished(NAME, "edge-1", "2"), "while it is written it is not known what is true"
    cache.wrote(taken, observed())
    assert cache.of_node("edge-1") == [NAME], "it was deleted behind our write, and is written once more"
    cache.cancel(NAME)
    assert cache.nodes() == []


def test_echoes_of_our_own_write_say_nothing_while_it_runs():
    """The watch may be late."""
    cache = StatusCache()
    cache.want(document("a"))
    [taken] = take(cache)
    cache.observe(NAME, "edge-1", observed("9", state="old"))
    assert NAME not in cache.observed
    cache.wrote(taken, observed("10", state="a"))
    assert cache.observed[NAME].version == "10"


def test_settled_forgets_a_write_that_has_not_started():
    """What is there is right after all."""
    cache = StatusCache()
    cache.want(document("a"))
    cache.cancel(NAME)
    assert cache.pending(NAME) is None


def test_what_is_older_than_what_is_known_is_no_news_however_late():
    """The watch brings the creation after the status was written, and after a break minutes later."""
    cache = StatusCache()
    cache.want(document("a"))
    [wanted] = take(cache)
    cache.wrote(wanted, observed("10"))
    for late in ("10", "9", "1"):
        assert not cache.observe(NAME, "edge-1", observed(late))
        assert not cache.vanished(NAME, "edge-1", late)
    assert cache.observed[NAME].version == "10"
    assert cache.observe(NAME, "edge-1", observed("11"))
    assert cache.vanished(NAME, "edge-1", "12")


def test_a_restored_api_server_begins_again_with_lower_versions():
    """The watch that noticed says so; then everything it brings is news, once."""
    cache = StatusCache()
    cache.synced.add("objectsyncs")
    cache.observe(NAME, "edge-1", observed("10"))
    cache.restored("objectsyncs")
    assert "objectsyncs" not in cache.synced
    assert cache.missing("objectsyncs", set(), "5") == [NAME]
    assert cache.observe(NAME, "edge-1", observed("4"))
    assert not cache.observe(NAME, "edge-1", observed("3"))


def test_what_a_server_that_was_not_restored_after_all_says_is_in_order_again():
    """It was only supposed to be, being away for long: the same version is no news, and older ones are none."""
    cache = StatusCache()
    cache.observe(NAME, "edge-1", observed("10"))
    cache.restored("objectsyncs")
    assert not cache.observe(NAME, "edge-1", observed("10"))
    assert not cache.observe(NAME, "edge-1", observed("9"))
    assert cache.missing("objectsyncs", set(), "5") == []


def test_a_list_says_nothing_of_what_was_written_after_it():
    """A new list is read while records are written: theirs are younger than the list."""
    cache = StatusCache()
    old, new = ("objectsyncs", "shop", "edge-1.old"), ("objectsyncs", "shop", "edge-1.new")
    cache.observe(old, "edge-1", observed("5"))
    cache.observe(new, "edge-1", observed("12"))
    assert cache.missing("objectsyncs", {"shop/other"}, "10") == [old]
    assert cache.missing("objectsyncs", {"shop/edge-1.old"}, "10") == []


@pytest.mark.parametrize("deleted", [True, False])
def test_what_others_did_right_behind_our_write_is_not_missed(deleted):
    """The watch was faster than the answer to our write: it is wanted again, until what stands there is ours."""
    cache = StatusCache()
    cache.want(document("a"))
    [wanted] = take(cache)
    if deleted:
        assert not cache.vanished(NAME, "edge-1", "12")
    else:
        assert not cache.observe(NAME, "edge-1", observed("12", state="nonsense"))
    cache.wrote(wanted, observed("11", state="a"))
    assert (NAME in cache.observed) is not deleted
    assert cache.pending(NAME) is wanted


def test_our_own_echo_before_the_answer_is_no_reason_to_write():
    """Nor is a change of what is not ours to write (an annotation)."""
    cache = StatusCache()
    for echo, answer in (("11", "11"), ("12", "11")):
        cache.want(document("a"))
        [wanted] = take(cache)
        cache.observe(NAME, "edge-1", observed(echo, state="a"))
        cache.wrote(wanted, observed(answer, state="a"))
        assert cache.observed[NAME].version == echo and cache.pending(NAME) is None


class Comparable(Note, frozen=True, kw_only=True):
    def is_written_in(self, there):
        return there.status == {"state": self.state}


def test_a_write_whose_answer_was_lost_is_not_repeated():
    """The watch has brought what we wanted to write."""
    cache = StatusCache()
    cache.want(Comparable(name=NAME, node="edge-1", state="a"))
    [wanted] = take(cache)
    cache.observe(NAME, "edge-1", observed("11", state="a"))
    cache.failed(wanted, 0.0)
    assert len(cache) == 0 and cache.observed[NAME].version == "11"
    cache.want(Removal(name=NAME, node="edge-1"))
    [removal] = take(cache)
    cache.vanished(NAME, "edge-1", "12")
    cache.failed(removal, 0.0)
    assert len(cache) == 0 and NAME not in cache.observed


def test_what_was_refused_is_tried_again_until_it_is_not_wanted():
    """Later and later, and without holding up others."""
    cache = StatusCache()
    other = ("objectsyncs", "shop", "edge-2.u")
    cache.want(document("a"))
    waits, now = [], 0.0
    for _ in range(8):
        [wanted] = take(cache, now)
        cache.failed(wanted, now, refused="403")
        started = now
        while not (again := take(cache, now)):
            now += 0.5
        waits.append(now - started)
        cache.failed(again[0], now, refused="403")
        now += 60.0
    assert waits[0] == 1.0 and max(waits) == 30.0
    cache.want(document("b", name=other))
    assert [each.name for each in take(cache, now - 59.0)] == [other]
    cache.cancel(NAME)
    assert len(cache.refusals) == 0


def test_nodes_take_turns_and_one_with_thousands_of_writes_delays_no_other():
    """A turn takes a bounded number; of each node the oldest goes first."""
    cache = StatusCache()
    for at in range(WRITES_MAX * 2):
        cache.want(Removal(name=("objectsyncs", "shop", f"busy.{at:06}"), node="busy"))
    for at in range(3):
        cache.want(Removal(name=("objectsyncs", "shop", f"quiet.{at}"), node="quiet"))
    taken = [write.wanted.name[2] for write in cache.take(0.0)]
    assert len(taken) == WRITES_MAX
    assert taken[:6] == ["busy.000000", "quiet.0", "busy.000001", "quiet.1", "busy.000002", "quiet.2"]
    assert [name for name in taken if name.startswith("busy")] == sorted(name for name in taken if "busy" in name)
    assert len(cache.take(0.0)) == WRITES_MAX and len(cache.take(0.0)) == 3
