"""The book of documents written behind, and the API server's twin."""

from typing import Any

import pytest

from fairlead_hub.ledger import Answer, Book, Document, MemoryLedger, Observed, Removal

NAME = ("objectsyncs", "shop", "edge-1.u")


class Note(Document, frozen=True, kw_only=True):
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


def test_newest_wish_wins():
    """Twenty changes before the disk of the API server is free are one write."""
    book = Book()
    for n in range(20):
        book.want(document(n))
    [taken] = book.take(10)
    assert taken.status(None) == {"state": 19}
    assert list(book.take(10)) == []


def test_one_write_at_a_time_for_each_name():
    """A wish that comes while one is being written waits for it."""
    book = Book()
    book.want(document("a"))
    [first] = book.take(10)
    book.want(document("b"))
    assert list(book.take(10)) == []
    book.wrote(first, observed())
    [second] = book.take(10)
    assert second.status(None) == {"state": "b"}
    assert len(book) == 1


def test_a_failed_write_is_wanted_again_unless_something_newer_is():
    """Nothing old overwrites something new."""
    book = Book()
    book.want(document("a"))
    [first] = book.take(10)
    book.want(document("b"))
    book.failed(first, again=True)
    [retried] = book.take(10)
    assert retried.status(None) == {"state": "b"}
    book.failed(retried, again=False)
    assert len(book) == 0


def test_a_record_deleted_by_hand_is_noticed_and_our_own_removal_is_not():
    """It may have to be written again."""
    book = Book()
    book.observe(NAME, "edge-1", observed())
    assert book.vanished(NAME, "edge-1")
    assert not book.vanished(NAME, "edge-1")
    book.observe(NAME, "edge-1", observed())
    book.want(Removal(name=NAME, node="edge-1"))
    [removal] = book.take(1)
    assert not book.vanished(NAME, "edge-1")
    book.wrote(removal, None)
    assert book.of_node("edge-1") == [] and book.nodes() == []


def test_echoes_of_our_own_write_say_nothing_while_it_runs():
    """The watch may be late."""
    book = Book()
    book.want(document("a"))
    [taken] = book.take(1)
    book.observe(NAME, "edge-1", observed("9", state="old"))
    assert NAME not in book.observed
    book.wrote(taken, observed("10", state="a"))
    assert book.observed[NAME].version == "10"


def test_settled_forgets_a_write_that_has_not_started():
    """What is there is right after all."""
    book = Book()
    book.want(document("a"))
    book.settled(NAME)
    assert book.pending(NAME) is None


async def test_the_twin_refuses_what_the_api_server_refuses():
    """Stale versions conflict, newer fences stop, namespaces that go take nothing new."""
    ledger = MemoryLedger()
    answer, first = await ledger.put(document("a"), None, 1)
    assert answer is Answer.WRITTEN
    answer, _ = await ledger.put(document("b"), None, 1)
    assert answer is Answer.CONFLICT
    answer, second = await ledger.put(document("b"), first, 1)
    assert answer is Answer.WRITTEN and second.status == {"state": "b"}
    ledger.documents[NAME] = observed(second.version, fence=5)
    assert (await ledger.put(document("c"), second, 1))[0] is Answer.FENCED
    assert await ledger.remove(Removal(name=NAME, node="edge-1"), second, 1) is Answer.FENCED
    assert await ledger.remove(Removal(name=NAME, node="edge-1"), second, 5) is Answer.WRITTEN
    assert await ledger.remove(Removal(name=NAME, node="edge-1"), second, 5) is Answer.GONE
    ledger.gone_namespaces.add("shop")
    assert (await ledger.put(document("d"), None, 5))[0] is Answer.FORBIDDEN


async def test_a_status_on_something_others_create_needs_it_to_exist():
    """A SyncRule that was deleted meanwhile is not brought back."""
    ledger = MemoryLedger()
    status_only = document("a", created=False)
    assert (await ledger.put(status_only, None, 1))[0] is Answer.GONE


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_take_is_bounded(limit):
    """As many writes at once as configured."""
    book = Book()
    for n in range(3):
        book.want(document(n, name=("objectsyncs", "shop", f"r{n}")))
    assert len(list(book.take(limit))) == min(limit, 3)


def test_a_late_echo_of_our_own_older_write_is_no_news():
    """The watch brings the creation after the status was written; only much later an older version is news."""
    book = Book()
    book.want(document("a"))
    [wanted] = book.take(1)
    written = observed("8")
    written.echoes = ("7",)
    book.wrote(wanted, written)
    assert not book.observe(NAME, "edge-1", observed("7"))
    assert book.observed[NAME].version == "8"
    book.now = 60.0
    assert book.observe(NAME, "edge-1", observed("7"))
