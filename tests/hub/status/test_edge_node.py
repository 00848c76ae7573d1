"""EdgeNode: one edge's account, and when it is worth a write."""

import pytest
from msgspec.structs import replace

from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.settings import DeletionGuardSettings
from fairlead_hub.status import edge_node
from fairlead_wire import message

ACCOUNT = edge_node.NodeFacts(
    connected=True, hub="hub-0", store_epoch=2**52, agent="0.1.0", last_contact="2026-11-20T00:00:00Z", wanted=3,
    held=3, parked=0, granted_topics=frozenset({"b/t", "a/t"}), edge=None,
)  # fmt: skip


def status(facts=ACCOUNT, before=()):
    return edge_node.status(facts, list(before), 1, "t1", 4)


def conditions(found):
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


def test_a_connected_node_that_holds_everything_is_synced():
    """Numbers as numbers, the 53-bit epoch as text."""
    found = status()
    assert conditions(found) == {
        "Connected": ("True", "Connected"),
        "Synced": ("True", "AllHeld"),
        "RulesReadable": ("True", "AllReadable"),
        "Paused": ("False", "NotPaused"),
        "DeletionGuard": ("False", "NotTripped"),
    }
    assert (found["storeEpoch"], found["grantedTopics"]) == (str(2**52), ["a/t", "b/t"])


def test_a_node_that_is_away_says_so():
    """ObjectSyncs stay untouched; this is where it is reported."""
    found = status(replace(ACCOUNT, connected=False))
    assert conditions(found)["Connected"] == ("False", "Away")
    assert conditions(found)["Synced"][0] == "False"


GUARD = DeletionGuard("n", DeletionGuardSettings(removals_max=1), news=set(), text=str)
GUARD.set_due({"a", "b"})
GUARD.blocked("a", 0.0)


@pytest.mark.parametrize(
    ("facts", "reason", "said"),
    [
        ({"connected": False}, "Away", "the node is not connected"),
        ({"connected": False, "deleted": "Node n was deleted"}, "NodeDeleted", "its Node was deleted"),
        ({"parked": 1}, "Parked", "1 of 3 objects parked after too many refusals"),
        ({"guard": GUARD}, "DeletionGuard", "the deletion guard stops deletions"),
        ({"paused": "why", "pending": 1}, "Paused", "objects wait until the node is resumed"),
        ({"held": 2}, "ObjectsPending", "1 of 3 objects not acknowledged"),
    ],
)
def test_why_a_node_is_not_synced(facts, reason, said):
    """Parked objects even when as many are held as wanted."""
    [found] = [each for each in status(replace(ACCOUNT, **facts))["conditions"] if each["type"] == "Synced"]
    assert (found["status"], found["reason"], found["message"]) == ("False", reason, said)


def test_what_is_kept_is_not_synced():
    """The node holds more than it should, and one of the reasons is named."""
    found = status(replace(ACCOUNT, kept=(("configmaps/shop/a", "SyncRule r cannot be read"),)))
    assert conditions(found)["Synced"] == ("False", "Kept")
    [synced] = [each for each in found["conditions"] if each["type"] == "Synced"]
    assert "configmaps/shop/a" in synced["message"] and "SyncRule r" in synced["message"]


def test_rules_that_cannot_be_read_are_reported_and_are_a_transition():
    """Also to an EdgeNode that an older hub wrote, which says nothing of rules."""
    before, after = status(), status(replace(ACCOUNT, unreadable="SyncRule r: why"))
    assert conditions(after)["RulesReadable"] == ("False", "RuleUnreadable")
    assert not edge_node.counts_only(after, before) and not edge_node.decides_the_same(after, before)
    older = {**before, "conditions": [each for each in before["conditions"] if each["type"] != "RulesReadable"]}
    assert edge_node.decides_the_same(before, older)


def test_queues_are_summed_by_priority():
    """Several endpoints of one priority are one row; most urgent first."""
    queues = [
        message.QueueStatus(endpoint="iothub", priority=1, length=5, bytes=10, oldest_age_seconds=3.7),
        message.QueueStatus(endpoint="n/m/i", priority=1, length=2, bytes=1, oldest_age_seconds=9.1),
        message.QueueStatus(endpoint="iothub", priority=0, length=1, bytes=1, oldest_age_seconds=0.0),
    ]
    found = status(replace(ACCOUNT, edge=message.EdgeStatus(held=3, queues=queues, dead_letters=2)))
    assert [(q["priority"], q["length"], q["oldestAgeSeconds"]) for q in found["queues"]] == [(0, 1, 0), (1, 7, 9)]
    assert (found["queuedMessages"], found["deadLetters"]) == (8, 2)


def test_queue_lengths_alone_are_no_transition():
    """They may wait for the next slow write."""
    busy = message.EdgeStatus(
        held=3, queues=[message.QueueStatus(endpoint="iothub", priority=1, length=5, bytes=1, oldest_age_seconds=1)]
    )
    assert edge_node.decides_the_same(status(replace(ACCOUNT, edge=busy)), status())
    assert not edge_node.decides_the_same(status(replace(ACCOUNT, connected=False)), status())
    assert not edge_node.decides_the_same(status(replace(ACCOUNT, parked=1)), status())


def test_it_is_owned_by_its_node():
    """The garbage collector takes it along."""
    assert edge_node.head("edge-1", "u")["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert "ownerReferences" not in edge_node.head("edge-1", "")["metadata"]
