"""Which Pod holds the Lease, and when it has surely ended; a Lease may have been edited by anyone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.leadership import holder_pod, lease
from fairlead_hub.leadership.holder_pod import HolderPod

POD = HolderPod("fairlead", "fairlead-hub-6d6f-mm6xm", "11-22")
THERE = {"metadata": {"name": POD.name, "uid": POD.uid}, "status": {"phase": "Running"}}


def test_it_is_what_the_chart_says():
    """A hub that runs in no Pod says nothing."""
    environ = {"POD_NAMESPACE": POD.namespace, "POD_NAME": POD.name, "POD_UID": POD.uid}
    assert holder_pod.own(environ) == POD
    for name in environ:
        assert holder_pod.own({**environ, name: ""}) is None


def test_what_is_written_is_read():
    """For the holder who wrote it alone: the next one may be a hub that does not know the annotation."""
    assert holder_pod.read(holder_pod.written(POD, "a"), "a") == POD
    assert holder_pod.read(holder_pod.written(POD, "a"), "b") is None
    assert holder_pod.written(None, "a") == {}


@given(st.one_of(st.none(), st.integers(), st.text(), st.dictionaries(st.text(), st.text()).map(json.dumps)))
def test_what_makes_no_sense_says_nothing(said):
    """Then it is waited for as ever."""
    assert holder_pod.read({holder_pod.ANNOTATION: said}, "a") is None


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"namespace": "", "name": "p", "uid": "u"},
        {"namespace": "n", "name": "", "uid": "u"},
        {"namespace": "n", "name": "p", "uid": ""},
        {"namespace": "n", "name": "p", "uid": 7},
        {"namespace": "n", "name": "p" * 4000, "uid": "u"},
    ],
)
def test_half_of_it_says_nothing(pod):
    """Neither does what no Pod can be called."""
    said = json.dumps({"identity": "a", "pod": pod})
    assert holder_pod.read({holder_pod.ANNOTATION: said}, "a") is None


def test_it_has_ended_where_it_is_not_there():
    """Nor does another Pod of its name make it live."""
    assert holder_pod.has_ended(POD, None)
    assert holder_pod.has_ended(POD, {"metadata": {"uid": "33"}, "status": {"phase": "Running"}})
    for phase in ("Succeeded", "Failed"):
        assert holder_pod.has_ended(POD, {**THERE, "status": {"phase": phase}})


@pytest.mark.parametrize(
    "there",
    [
        THERE,
        {**THERE, "metadata": {**THERE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {**THERE, "status": {"phase": "Unknown"}},
        {**THERE, "status": {"phase": "Pending"}},
        {**THERE, "status": None},
        {"metadata": {}},
        {"metadata": {"uid": ""}},
        {"metadata": "no"},
        {},
    ],
)
def test_it_may_live(there):
    """A Pod that ends is not one that has ended, and an answer without a uid says nothing."""
    assert not holder_pod.has_ended(POD, there)


def test_the_lease_names_the_pod_of_its_holder():
    """Renewed and taken over it stays true; a holder that runs in no Pod takes the word away."""
    first = lease.take(None, identity="a", namespace="n", wall=1.0, seconds_left=0, pod=POD)
    assert isinstance(first, lease.TakeLease) and lease.pod_of_holder(first.body) == POD
    kept = lease.renewed(first.body, identity="a", wall=2.0, fence=1, pod=POD)
    assert lease.pod_of_holder(kept) == POD
    assert lease.pod_of_holder(lease.released(first.body)) is None
    second = lease.take(first.body, identity="b", namespace="n", wall=3.0, seconds_left=0)
    assert isinstance(second, lease.TakeLease) and lease.pod_of_holder(second.body) is None
    assert holder_pod.ANNOTATION not in second.body["metadata"]["annotations"]
    by_an_older_hub = {**first.body, "spec": {**first.body["spec"], "holderIdentity": "old"}}
    assert lease.pod_of_holder(by_an_older_hub) is None
