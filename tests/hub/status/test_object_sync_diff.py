"""What a record should say: content decides first, versions second."""

import pytest
from msgspec.structs import replace
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.status.object_sync import Record
from fairlead_hub.status.object_sync_diff import record_of_away, record_of_held
from fairlead_wire.objects.api_group import PAUSED

LIVE = live(CONFIG_MAP, "a", version="7", data={"k": "v"})
RECORD = Record(
    node="n", api_version="v1", kind="ConfigMap", namespace="shop", object_name="a", uid=LIVE.uid, version="7",
    digest=LIVE.digest, wanted_version="7", state="Synced",
)  # fmt: skip
OLDER = replace(LIVE.held, digest="old", version="5")


def test_a_true_record_is_left_alone():
    """No write without a reason."""
    assert record_of_held(RECORD, LIVE.held, LIVE) is None


@pytest.mark.parametrize(
    "record",
    [
        None,
        replace(RECORD, digest="other"),
        replace(RECORD, state="Pending"),
        replace(RECORD, version="", wanted_version=""),
        replace(RECORD, version="foreign", wanted_version="foreign"),
        replace(RECORD, version="5"),
        replace(RECORD, version="900", wanted_version="900"),
    ],
)
def test_what_is_held_is_written_down(record):
    """Missing, empty, foreign, behind, or from before a restore: set right by the content that is held."""
    assert record_of_held(record, LIVE.held, LIVE) == ("7", "7", "Synced")


def test_a_newer_version_with_the_same_content_is_held():
    """Status-only changes write nothing."""
    LIVE.seen_version = "12"
    assert record_of_held(replace(RECORD, version="9", wanted_version="9"), LIVE.held, LIVE) is None


def test_behind_is_pending_with_what_is_really_held():
    """The record names the older version until the ack."""
    assert record_of_held(None, OLDER, LIVE) == ("5", "7", "Pending")
    assert record_of_held(replace(RECORD, digest="x"), OLDER, LIVE) == ("5", "7", "Pending")


def test_a_truthful_record_of_the_older_content_waits_for_the_ack():
    """The delivery is on its way; writing Pending now would be one write for nothing."""
    truthful = replace(RECORD, digest="old", version="5", wanted_version="5")
    assert record_of_held(truthful, OLDER, LIVE) is None


def test_held_but_not_wanted_is_deleting():
    """Until its delete was acknowledged."""
    assert record_of_held(None, OLDER, None) == ("5", "", "Deleting")
    assert record_of_held(replace(RECORD, digest="old", version="5"), OLDER, None) is None


def paused(why="by hand"):
    one = live(CONFIG_MAP, "a", version="7", data={"k": "v"}, metadata={"annotations": {PAUSED: why}})
    assert one.digest == LIVE.digest
    return one


def test_a_pause_is_written_down_where_nothing_waits_either():
    """And its end."""
    assert record_of_held(RECORD, LIVE.held, paused()) == ("7", "7", "Synced")
    assert record_of_held(replace(RECORD, reason="Paused"), LIVE.held, paused()) is None
    assert record_of_held(replace(RECORD, reason="Paused"), LIVE.held, LIVE) == ("7", "7", "Synced")


BEHIND = replace(RECORD, digest="old", version="5", state="Behind", reason="NodeAway", message="the node is away")


@pytest.mark.parametrize(
    ("before", "wanted", "says"),
    [
        (replace(RECORD, digest="old", version="5", wanted_version="5"), LIVE, ("Behind", "NodeAway", "7")),
        (
            replace(RECORD, digest="old", version="5", state="Pending", reason="Lagging"),
            LIVE,
            ("Behind", "NodeAway", "7"),
        ),
        (replace(RECORD, digest="old", version="5", state="Deleting"), LIVE, ("Behind", "NodeAway", "7")),
        (replace(BEHIND, state="Parked", wanted_version="6", retries=5), LIVE, ("Behind", "NodeAway", "7")),
        (BEHIND, paused(), ("Behind", "Paused", "7")),
        (replace(BEHIND, digest=LIVE.digest), LIVE, ("Synced", "", "7")),
        (replace(RECORD, state="Deleting", wanted_version=""), LIVE, ("Synced", "", "7")),
        (RECORD, paused(), ("Synced", "Paused", "7")),
        (RECORD, None, ("Deleting", "NodeAway", "")),
        (BEHIND, None, ("Deleting", "NodeAway", "")),
    ],
)
def test_what_is_said_of_an_away_node_follows_the_content(before, wanted, says):
    """By state, reason and wanted version; nothing is tried again while the node is away."""
    after = record_of_away(before, wanted, refresh=False)
    assert after is not None and (after.state, after.reason, after.wanted_version) == says
    assert (after.retries, after.next_retry_time) == (0, "") and after.digest == before.digest
    assert after.state != "Synced" or after.version == after.wanted_version
    assert record_of_away(after, wanted, refresh=True) is after, "once"


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (RECORD, LIVE),
        (BEHIND, LIVE),
        (replace(BEHIND, state="Parked", retries=5), LIVE),
        (replace(RECORD, state="Deleting"), None),
    ],
)
def test_what_says_it_already_is_left_alone(before, wanted):
    """Parked, because it says more about this very content."""
    found = [record_of_away(before, wanted, refresh=refresh) for refresh in (False, True)]
    assert all(each is before for each in found)


def test_a_newer_wanted_version_alone_waits_for_the_slow_pass():
    """However often the object changes."""
    older = replace(BEHIND, wanted_version="6")
    assert record_of_away(older, LIVE, refresh=False) is older
    after = record_of_away(older, LIVE, refresh=True)
    assert after is not None and after.wanted_version == "7"


def test_what_was_never_held_and_is_not_wanted_goes():
    """There is nothing to say of it."""
    assert record_of_away(replace(BEHIND, version="", digest=""), None, refresh=False) is None
