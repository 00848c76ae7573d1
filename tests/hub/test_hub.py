"""The hub's core as a whole: what is never deleted, and which bytes are refused.  ``core/`` tests its halves."""

import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, short, unreadable
from tests.support.hubs.live import CONFIG_MAP

from fairlead_wire import message
from fairlead_wire.errors import Malformed

KIND = CONFIG_MAP.group_kind


@pytest.mark.parametrize("doubt", ["unsynced", "frozen", "broken rule"])
def test_nothing_is_deleted_in_doubt(core, doubt):
    """A lost watch, a 403, a rule that cannot be read: what is there stays until it is certain."""
    one = core.put("a")
    edge = core.opened("edge-1", one)
    match doubt:
        case "unsynced":
            core.hub.cluster.kind_unsynced(KIND)
        case "frozen":
            core.hub.cluster.kind_frozen(KIND, "403 Forbidden")
        case _:
            unreadable(core, "r")
    core.remove(one)
    core.settle()
    assert edge.sent() == []
    assert list(edge.session.keys.unsynced.kept()) == [one.key]
    core.hub.cluster.kind_synced(KIND)
    core.rule(CONFIG_MAPS)
    core.settle()
    assert short(edge.sent()) == [("Delete", "a")]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"held": "x"}', b'{"held":1,"routes":{"\xff":null}}', b'{"held":1,"x":' + b"[" * 100_000],
    ids=["empty", "cut off", "no object", "wrong type", "not UTF-8", "nested"],
)
def test_a_status_that_is_none_is_malformed(core, content):
    """Never another exception, whatever the bytes."""
    edge = core.opened()
    with pytest.raises(Malformed, match="JSON"):
        edge.say(message.Status(), content)
