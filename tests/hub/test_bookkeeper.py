"""Records kept true to the sessions, also where the API says something nobody wrote."""

from tests.support.hub_core import Core

from fairlead_hub import ledger


def test_records_listed_after_the_nodes_are_collected_at_once():
    """A Node deleted while no hub ran: its records go when both lists are in, not at the next slow pass."""
    core = Core("edge-1")
    name = ("objectsyncs", "shop", "gone.uid-1")
    core.hub.book.observe(name, "gone", ledger.Observed(version="1", generation=1, status={}, head={}))
    core.hub.bookkeeper.listed("objectsyncs", core.now)
    assert isinstance(core.hub.book.pending(name), ledger.Removal)
