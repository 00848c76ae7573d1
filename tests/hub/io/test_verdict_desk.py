"""Verdicts become documents for the book, and nothing is written that stands there already."""

from __future__ import annotations

from tests.support.hub_core import CONFIG_MAPS, Core

from fairlead_hub import ledger
from fairlead_hub.io.verdict_desk import VerdictDesk

NAME: ledger.Name = ("syncrules", "", "r")


def observed(core: Core, status: ledger.Status | None = None) -> None:
    """The watch saw the rule."""
    core.hub.book.observe(NAME, "", ledger.Observed(version="5", generation=2, status=status or {}, head={}))


def test_a_rule_is_told_once() -> None:
    """Asked again with the same answer, nothing is wanted; a node more, and it is."""
    core = Core("edge-1")
    core.rule(CONFIG_MAPS, name="r")
    desk = VerdictDesk(core.hub)
    desk.refresh()
    assert core.hub.book.pending(NAME) is None, "a rule nobody has seen in the API is not written to"
    observed(core)
    desk.refresh()
    wanted = core.hub.book.pending(NAME)
    assert isinstance(wanted, ledger.Document) and wanted.head() is None
    status = wanted.status(core.hub.book.observed[NAME])
    assert (status["matchedNodes"], status["observedGeneration"]) == (1, 2)
    observed(core, status)
    desk.refresh()
    assert core.hub.book.pending(NAME) is None
    core.node("edge-2")
    desk.ask("syncrules", "r")
    assert core.hub.book.pending(NAME) is not None


def test_a_broken_rule_is_told_why() -> None:
    core = Core("edge-1")
    core.hub.break_rule("r", "spec.resources: at least one entry is needed")
    observed(core)
    desk = VerdictDesk(core.hub)
    desk.refresh()
    wanted = core.hub.book.pending(NAME)
    assert isinstance(wanted, ledger.Document)
    accepted = wanted.status(None)["conditions"][0]
    assert (accepted["type"], accepted["status"]) == ("Accepted", "False") and "at least one" in accepted["message"]
