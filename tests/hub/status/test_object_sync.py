"""Records: names, labels, status, and reading back what others may have written."""

import pytest
from msgspec.structs import replace
from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.status import object_sync
from fairlead_hub.status.object_sync import Record, record_of_away, record_of_held
from fairlead_wire.objects.api_group import PAUSED

RECORD = Record(
    node="edge-1", api_version="v1", kind="ConfigMap", namespace="shop", object_name="prices", uid="u-1",
    version="7", digest="d", wanted_version="7", state="Synced", last_ack_time="2026-11-20T00:00:00Z",
)  # fmt: skip


def written(record):
    head = object_sync.head(record)
    return {**head, "status": object_sync.status(record, [], 1, "2026-11-20T00:00:01Z", 3)}


def test_a_record_survives_the_api():
    """What is written is what is read."""
    assert object_sync.parse(written(RECORD)) == RECORD


def test_scope_decides_the_kind():
    """Cluster-scoped objects have ClusterObjectSyncs, without a namespace."""
    assert object_sync.head(RECORD)["kind"] == "ObjectSync"
    cluster = replace(RECORD, namespace="")
    assert object_sync.head(cluster)["kind"] == "ClusterObjectSync"
    assert "namespace" not in object_sync.head(cluster)["metadata"]


def test_long_names_are_cut_and_marked():
    """Two long names that begin alike stay apart, and both fit."""
    first, second = (object_sync.name_of("n" * 250, uid) for uid in ("u-1", "u-2"))
    assert first != second
    assert len(first) <= object_sync.NAME_CHARS_MAX
    head = object_sync.head(replace(RECORD, node="n" * 100))
    assert len(head["metadata"]["labels"][object_sync.NODE_LABEL]) <= object_sync.LABEL_CHARS_MAX
    assert object_sync.shortened("short", 63) == "short"


def test_transition_times_move_only_with_the_status():
    """A condition that stays true keeps its time."""
    before = object_sync.status(RECORD, [], 1, "t1", 3)["conditions"]
    same = object_sync.status(RECORD, before, 1, "t2", 3)["conditions"]
    assert [c["lastTransitionTime"] for c in same] == ["t1", "t1"]
    parked = replace(RECORD, state="Parked", reason="digest_mismatch")
    after = {c["type"]: c for c in object_sync.status(parked, before, 1, "t3", 3)["conditions"]}
    assert (after["Synced"]["status"], after["Stalled"]["status"]) == ("False", "True")
    assert after["Stalled"]["lastTransitionTime"] == "t3"
    assert after["Stalled"]["reason"] == "DigestMismatch"


@pytest.mark.parametrize(
    "body",
    [{}, {"spec": None}, {"spec": {"nodeName": "n"}}, {"spec": {"nodeName": "n", "objectUID": "u"}, "status": "x"}],
)
def test_foreign_records_are_none_of_ours(body):
    """Made by hand, half written, of another shape: never an exception."""
    assert object_sync.parse(body) is None


def test_an_empty_status_is_a_pending_record_without_a_version():
    """A crash between create and status leaves this; it is not taken for held."""
    found = object_sync.parse(object_sync.head(RECORD))
    assert found is not None
    assert (found.version, found.state) == ("", "Pending")
    assert not found.says_the_same(RECORD)


def test_a_later_ack_of_the_same_is_no_reason_to_write():
    """Nothing a reader decides by differs."""
    later = replace(RECORD, last_ack_time="later")
    assert RECORD.says_the_same(later)


LIVE = live(CONFIG_MAP, "a", version="7", data={"k": "v"})
SAID = Record(
    node="n", api_version="v1", kind="ConfigMap", namespace="shop", object_name="a", uid=LIVE.uid, version="7",
    digest=LIVE.digest, wanted_version="7", state="Synced",
)  # fmt: skip
OLDER = replace(LIVE.held, digest="old", version="5")


def test_a_true_record_is_left_alone():
    """No write without a reason."""
    assert record_of_held(SAID, LIVE.held, LIVE) is None


@pytest.mark.parametrize(
    "record",
    [
        None,
        replace(SAID, digest="other"),
        replace(SAID, state="Pending"),
        replace(SAID, version="", wanted_version=""),
        replace(SAID, version="foreign", wanted_version="foreign"),
        replace(SAID, version="5"),
        replace(SAID, version="900", wanted_version="900"),
    ],
)
def test_what_is_held_is_written_down(record):
    """Missing, empty, foreign, behind, or from before a restore: set right by the content that is held."""
    assert record_of_held(record, LIVE.held, LIVE) == ("7", "7", "Synced")


def test_a_newer_version_with_the_same_content_is_held():
    """Status-only changes write nothing."""
    LIVE.seen_version = "12"
    assert record_of_held(replace(SAID, version="9", wanted_version="9"), LIVE.held, LIVE) is None


def test_behind_is_pending_with_what_is_really_held():
    """The record names the older version until the ack."""
    assert record_of_held(None, OLDER, LIVE) == ("5", "7", "Pending")
    assert record_of_held(replace(SAID, digest="x"), OLDER, LIVE) == ("5", "7", "Pending")


def test_a_truthful_record_of_the_older_content_waits_for_the_ack():
    """The delivery is on its way; writing Pending now would be one write for nothing."""
    truthful = replace(SAID, digest="old", version="5", wanted_version="5")
    assert record_of_held(truthful, OLDER, LIVE) is None


def test_held_but_not_wanted_is_deleting():
    """Until its delete was acknowledged."""
    assert record_of_held(None, OLDER, None) == ("5", "", "Deleting")
    assert record_of_held(replace(SAID, digest="old", version="5"), OLDER, None) is None


def paused(why="by hand"):
    one = live(CONFIG_MAP, "a", version="7", data={"k": "v"}, metadata={"annotations": {PAUSED: why}})
    assert one.digest == LIVE.digest
    return one


def test_a_pause_is_written_down_where_nothing_waits_either():
    """And its end."""
    assert record_of_held(SAID, LIVE.held, paused()) == ("7", "7", "Synced")
    assert record_of_held(replace(SAID, reason="Paused"), LIVE.held, paused()) is None
    assert record_of_held(replace(SAID, reason="Paused"), LIVE.held, LIVE) == ("7", "7", "Synced")


BEHIND = replace(SAID, digest="old", version="5", state="Behind", reason="NodeAway", message="the node is away")


@pytest.mark.parametrize(
    ("before", "wanted", "says"),
    [
        (replace(SAID, digest="old", version="5", wanted_version="5"), LIVE, ("Behind", "NodeAway", "7")),
        (
            replace(SAID, digest="old", version="5", state="Pending", reason="Lagging"),
            LIVE,
            ("Behind", "NodeAway", "7"),
        ),
        (replace(SAID, digest="old", version="5", state="Deleting"), LIVE, ("Behind", "NodeAway", "7")),
        (replace(BEHIND, state="Parked", wanted_version="6", retries=5), LIVE, ("Behind", "NodeAway", "7")),
        (BEHIND, paused(), ("Behind", "Paused", "7")),
        (replace(BEHIND, digest=LIVE.digest), LIVE, ("Synced", "", "7")),
        (replace(SAID, state="Deleting", wanted_version=""), LIVE, ("Synced", "", "7")),
        (SAID, paused(), ("Synced", "Paused", "7")),
        (SAID, None, ("Deleting", "NodeAway", "")),
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
        (SAID, LIVE),
        (BEHIND, LIVE),
        (replace(BEHIND, state="Parked", retries=5), LIVE),
        (replace(SAID, state="Deleting"), None),
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
