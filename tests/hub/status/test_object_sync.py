"""Records: names, labels, status, and reading back what others may have written."""

import pytest
from msgspec.structs import replace

from fairlead_hub.status import object_sync
from fairlead_hub.status.object_sync import Record

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
