"""What a record should say: content decides first, versions second."""

import pytest
from msgspec.structs import replace
from tests.support.live import CONFIG_MAP, live

from fairlead_hub.status.object_sync import Record
from fairlead_hub.status.object_sync_diff import record_of_held

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
