"""Who is the hub, and with which fencing number; no wall clock decides it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub import leadership
from fairlead_hub.leadership import PAUSE_SECONDS, PULSE_SECONDS, HolderPod, Tenure

NOW = 1_800_000_000.0
LONG = leadership.LEASE_SECONDS + leadership.CLOCK_DRIFT_SECONDS


def taken(current=None, identity="a", wall=NOW, seconds_left=LONG, **more):
    return leadership.take(
        current, identity=identity, namespace="default", wall=wall, seconds_left=seconds_left, **more
    )


def test_the_first_hub_gets_the_first_number():
    """A free Lease is taken at once."""
    first = taken()
    assert isinstance(first, leadership.TakeLease)
    assert first.fence == leadership.fence_of(first.body) == 1
    assert first.body["spec"]["holderIdentity"] == "a"


def test_a_restart_does_not_wait_for_itself():
    """The same identity takes over at once after kill -9, under a higher number."""
    again = taken(taken().body, wall=NOW + 1)
    assert isinstance(again, leadership.TakeLease)
    assert again.fence == 2


def test_another_hub_waits_as_long_as_the_lease_says():
    """And says who holds it."""
    assert taken(taken().body, identity="b", seconds_left=4) == leadership.HeldByOther(holder="a", seconds=4)
    after = taken(taken().body, identity="b", seconds_left=0)
    assert isinstance(after, leadership.TakeLease)
    assert after.body["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("wall", [0.0, NOW - 3600, NOW + 11, NOW + 3600, 4_000_000_000.0])
def test_no_wall_clock_takes_a_live_lease(wall):
    """A clock 11 s ahead took it; only changes that were seen count."""
    rival = leadership.Rival()
    body = taken(wall=NOW).body
    for second in range(0, 60, 3):
        body = leadership.renewed(body, identity="a", wall=NOW + second, fence=1)
        assert body is not None
        left = rival.seconds_left(body, 1000.0 + second)
        assert isinstance(taken(body, identity="b", wall=wall + second, seconds_left=left), leadership.HeldByOther)
    assert rival.seconds_left(body, 1000.0 + 57 + LONG) <= 0


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "soon", None, 7])
@pytest.mark.parametrize("duration", [None, -1, 0, 1, 10, 2**31 - 1, "x", 1e300])
def test_times_in_a_lease_are_only_compared_with_themselves(renewed, duration):
    """Whatever stands there, an abandoned Lease is waited for no longer than a minute, and a live one never less."""
    body = taken().body
    body["spec"]["renewTime"], body["spec"]["leaseDurationSeconds"] = renewed, duration
    rival = leadership.Rival()
    first = rival.seconds_left(body, 5.0)
    assert LONG <= first <= leadership.ABANDONED_SECONDS_MAX + leadership.CLOCK_DRIFT_SECONDS
    assert rival.seconds_left(body, 5.0 + first) == 0


def test_another_owners_label_is_no_sign_of_life():
    """What counts is what the holder writes."""
    rival = leadership.Rival()
    body = taken().body
    rival.seconds_left(body, 0.0)
    body = {**body, "metadata": {**body["metadata"], "labels": {"seen": "1"}, "resourceVersion": "9"}}
    assert rival.seconds_left(body, LONG) <= 0


def test_a_released_lease_is_free():
    """A hub that drains does not make its successor wait."""
    assert isinstance(taken(leadership.released(taken().body), identity="b"), leadership.TakeLease)


def test_renewal_needs_the_holder_and_the_number():
    """A hub that lost the Lease does not write it any more."""
    body = taken().body
    assert leadership.renewed(body, identity="a", wall=NOW + 3, fence=1) is not None
    assert leadership.renewed(body, identity="b", wall=NOW + 3, fence=1) is None
    assert leadership.renewed(body, identity="a", wall=NOW + 3, fence=7) is None


def test_a_restored_lease_cannot_bring_the_number_down():
    """An API server from an older backup has an older number; the edges have seen a higher one."""
    assert taken(taken().body, at_least=40).fence == 40


def test_an_absurd_number_is_not_believed():
    """A restored API server is some hubs behind, not quadrillions; numbers that are used up never come back."""
    assert leadership.is_believable(40, 1) and leadership.is_believable(1, 40)
    assert not leadership.is_believable(2**53, 1)


def numbered(text, transitions=0):
    body = taken().body
    body["metadata"]["annotations"][leadership.FENCE_ANNOTATION] = text
    body["spec"]["leaseTransitions"] = transitions
    return body


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "9" * 40, "9999999999999999", str(2**53), str(leadership.FENCE_MAX + 1), "1e9", "²", "١", 7, None],
)
def test_a_number_that_cannot_be_is_repaired(text):
    """No edge takes one above 2**53; the transitions say what it was at least."""
    body = numbered(text, transitions=6)
    assert leadership.fence_of(body) == 6
    assert taken(body).fence == 7
    assert taken(body, identity="b", seconds_left=0).fence == 7


@pytest.mark.parametrize("text", ["9999999999999999", "4000000000000000", "", "1"])
def test_while_it_is_held_the_number_is_repaired_at_once(text):
    """It was edited by hand: it is ours still, and written anew under a number above ours."""
    body = numbered(text)
    assert leadership.renewed(body, identity="a", wall=NOW, fence=5) is None
    assert leadership.is_ours(body, identity="a", fence=5)
    assert taken(body, at_least=6, known=5).fence == 6


def test_a_newer_run_with_our_own_name_is_believed():
    """Its number is a little above ours."""
    assert not leadership.is_ours(numbered("6"), identity="a", fence=5)


@pytest.mark.parametrize("transitions", [2**31 - 1, -1, "x", 1e300, True, None])
def test_transitions_the_api_server_would_refuse_are_begun_anew(transitions):
    """A 32-bit number that is full would let no hub take the Lease any more."""
    body = taken(numbered("5", transitions), identity="b", seconds_left=0).body
    assert 0 <= body["spec"]["leaseTransitions"] < 2**31


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
SPEC = st.fixed_dictionaries(
    {}, optional={key: ANY for key in ("holderIdentity", "leaseDurationSeconds", "renewTime", "leaseTransitions")}
)
METADATA = st.fixed_dictionaries(
    {},
    optional={"annotations": ANY | st.dictionaries(st.just(leadership.FENCE_ANNOTATION), ANY), "resourceVersion": ANY},
)


@pytest.mark.slow
@given(st.fixed_dictionaries({}, optional={"metadata": METADATA | ANY, "spec": SPEC | ANY}))
def test_whatever_a_lease_contains_edges_accept_the_next_number(body):
    """And it can be written, kept and given back."""
    left = leadership.Rival().seconds_left(body, 0.0)
    assert 0 < left <= leadership.ABANDONED_SECONDS_MAX + leadership.CLOCK_DRIFT_SECONDS
    outcome = taken(body, seconds_left=0)
    assert isinstance(outcome, leadership.TakeLease) and 0 < outcome.fence < 2**53
    assert leadership.is_ours(outcome.body, identity="a", fence=outcome.fence)
    again = leadership.renewed(outcome.body, identity="a", wall=NOW, fence=outcome.fence)
    assert again is not None and msgspec.json.encode(again) and leadership.holder_of(leadership.released(again)) == ""


NODES = [f"n{at}" for at in range(50)]


def test_one_nodes_claim_raises_no_number():
    """However often it says so, and however high."""
    claims = leadership.FenceClaims(16)
    for at in range(1, 1000):
        assert claims.record("n0", 16 + 99 * at, float(at), nodes=NODES) == 0


def test_a_number_that_enough_nodes_have_obeyed_is_believed():
    """The Lease was lost: the highest number that three of them name, or a higher one, and no liar's."""
    claims = leadership.FenceClaims(1)
    assert claims.record("n0", 16, 0.0, nodes=NODES) == claims.record("n1", 90_000, 1.0, nodes=NODES) == 0
    assert claims.record("n2", 17, 2.0, nodes=NODES) == 16
    assert claims.record("n3", 17, 3.0, nodes=NODES) == 17
    assert claims.record("n4", 17, 3.0 + leadership.CLAIM_SECONDS, nodes=NODES) == 0, (
        "what was said long ago counts no more"
    )


def test_only_edge_nodes_are_asked():
    """Certificates of Nodes that were deleted are no witnesses."""
    claims = leadership.FenceClaims(1)
    assert [claims.record(name, 90, 0.0, nodes=NODES) for name in ("gone-1", "gone-2", "gone-3", "n1", "n2")] == [0] * 5
    assert claims.record("n3", 90, 0.0, nodes=NODES) == 90
    assert claims.record("n3", 90, 0.0, nodes=["n3", "n4"]) == 0, "the others were deleted since"


def test_claims_that_cannot_be_hide_no_true_ones():
    """Three nodes that conspire and claim an absurd number: those that tell the truth are heard all the same."""
    claims = leadership.FenceClaims(1)
    for liar in NODES[:3]:
        assert claims.record(liar, 2**52, 0.0, nodes=NODES) == 0
    assert [claims.record(name, 17, 0.0, nodes=NODES) for name in NODES[3:6]] == [0, 0, 17]


def test_nodes_that_conspire_raise_it_by_a_bounded_sum():
    """Each time as far as they are believed: the sum is bounded too, until a hub takes the Lease anew."""
    claims, fence = leadership.FenceClaims(16), 16
    for round in range(50):
        for liar in NODES[:3]:
            fence = max(fence, claims.record(liar, fence + 99_000, float(round), nodes=NODES) + 1)
    assert fence <= 16 + leadership.FENCE_AHEAD_MAX


def test_thousands_of_claims_cost_no_more_than_three():
    """All nodes come back at once, each every ten seconds."""
    claims, nodes = leadership.FenceClaims(1), {f"n{at}" for at in range(10_000)}
    for node in nodes:
        claims.record(node, 17, 0.0, nodes=nodes)
    assert len(claims._claims) == leadership.CLAIMS_NEEDED


@pytest.mark.parametrize("nodes", [["n0"], ["n0", "n1"]])
def test_where_there_are_fewer_nodes_all_of_them_are_enough(nodes):
    """A cluster of one node follows that one."""
    claims = leadership.FenceClaims(1)
    believed = [claims.record(node, 9, 0.0, nodes=nodes) for node in nodes]
    assert believed == [0] * (len(nodes) - 1) + [9]


def test_before_nodes_are_listed_nobody_is_a_witness():
    """They come again."""
    claims = leadership.FenceClaims(1)
    assert [claims.record(node, 9, 0.0, nodes=()) for node in NODES] == [0] * len(NODES)


def running(tenure, since, until):
    """It runs all the time; returns whether doubt began."""
    at, began = since, False
    while at < until:
        at += PULSE_SECONDS
        began |= tenure.ran(at)
    return began


def test_nothing_is_written_before_the_first_renewal():
    assert Tenure(0.0).seconds_left(0.0) == 0


def test_writes_last_as_long_as_the_lease_that_was_asked_for():
    """From when it was asked for, not from when the answer came."""
    tenure = Tenure(0.0)
    tenure.renewed(asked_at=1.0, now=4.0)
    assert tenure.seconds_left(4.0) == leadership.LEASE_SECONDS - 3
    assert tenure.seconds_left(1.0 + leadership.LEASE_SECONDS) == 0


def test_while_the_api_server_is_away_nodes_are_served_on():
    """It ran all the time, and no other hub can have taken over."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert not running(tenure, 0.0, 300.0)
    assert not tenure.doubted and tenure.seconds_left(300.0) == 0


def test_stopped_for_longer_than_the_lease_it_must_ask_first():
    """The first to look after the pause finds out; a renewal ends it."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert tenure.ran(40.0) and tenure.doubted
    assert not tenure.ran(40.1), "said once"
    tenure.renewed(asked_at=1.0, now=41.0)
    assert tenure.doubted, "an answer to what was asked before the pause says nothing"
    tenure.renewed(asked_at=40.5, now=41.0)
    assert not tenure.doubted


def test_a_short_pause_is_none():
    """Its Lease is good still."""
    tenure = Tenure(0.0)
    tenure.renewed(0.0, 0.0)
    assert not tenure.ran(leadership.LEASE_SECONDS - 1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 480).map(lambda n: n / 16), st.booleans()), max_size=30))
def test_no_hub_speaks_that_may_have_been_replaced_in_a_pause(steps):
    """Whatever the pauses and renewals: a rival that saw the last renewal as late as possible has to wait still.

    Each step is a pause and whether a renewal is answered right after it; in sixteenths of a second, which sums of
    floats hold exactly.
    """
    tenure, now, renewed_at = Tenure(0.0), 0.0, float("-inf")
    for pause, answered in steps:
        now += pause
        tenure.ran(now)
        if pause >= PAUSE_SECONDS and now - renewed_at >= leadership.LEASE_SECONDS:
            assert tenure.doubted
        if answered:
            tenure.renewed(now, now)
            renewed_at = now
            assert not tenure.doubted
        assert (tenure.seconds_left(now) > 0) == (now - renewed_at < leadership.LEASE_SECONDS)


POD = HolderPod("fairlead", "fairlead-hub-6d6f-mm6xm", "11-22")
THERE = {"metadata": {"name": POD.name, "uid": POD.uid}, "status": {"phase": "Running"}}


def test_it_is_what_the_chart_says():
    """A hub that runs in no Pod says nothing."""
    environ = {"POD_NAMESPACE": POD.namespace, "POD_NAME": POD.name, "POD_UID": POD.uid}
    assert leadership.own(environ) == POD
    for name in environ:
        assert leadership.own({**environ, name: ""}) is None


def test_what_is_written_is_read():
    """For the holder who wrote it alone: the next one may be a hub that does not know the annotation."""
    assert leadership.read(leadership.written(POD, "a"), "a") == POD
    assert leadership.read(leadership.written(POD, "a"), "b") is None
    assert leadership.written(None, "a") == {}


@pytest.mark.slow
@given(st.one_of(st.none(), st.integers(), st.text(), st.dictionaries(st.text(), st.text()).map(json.dumps)))
def test_what_makes_no_sense_says_nothing(said):
    """Then it is waited for as ever."""
    assert leadership.read({leadership.ANNOTATION: said}, "a") is None


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
    assert leadership.read({leadership.ANNOTATION: said}, "a") is None


def test_it_has_ended_where_it_is_not_there():
    """Nor does another Pod of its name make it live."""
    assert leadership.has_ended(POD, None)
    assert leadership.has_ended(POD, {"metadata": {"uid": "33"}, "status": {"phase": "Running"}})
    for phase in ("Succeeded", "Failed"):
        assert leadership.has_ended(POD, {**THERE, "status": {"phase": phase}})


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
    assert not leadership.has_ended(POD, there)


def test_the_lease_names_the_pod_of_its_holder():
    """Renewed and taken over it stays true; a holder that runs in no Pod takes the word away."""
    first = leadership.take(None, identity="a", namespace="n", wall=1.0, seconds_left=0, pod=POD)
    assert isinstance(first, leadership.TakeLease) and leadership.pod_of_holder(first.body) == POD
    kept = leadership.renewed(first.body, identity="a", wall=2.0, fence=1, pod=POD)
    assert leadership.pod_of_holder(kept) == POD
    assert leadership.pod_of_holder(leadership.released(first.body)) is None
    second = leadership.take(first.body, identity="b", namespace="n", wall=3.0, seconds_left=0)
    assert isinstance(second, leadership.TakeLease) and leadership.pod_of_holder(second.body) is None
    assert leadership.ANNOTATION not in second.body["metadata"]["annotations"]
    by_an_older_hub = {**first.body, "spec": {**first.body["spec"], "holderIdentity": "old"}}
    assert leadership.pod_of_holder(by_an_older_hub) is None
