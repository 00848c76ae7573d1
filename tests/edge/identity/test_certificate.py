"""When the edge asks for a new certificate."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.identity.certificate import (
    RETRY_SECONDS_MAX,
    RETRY_SECONDS_MIN,
    CertificateRenewal,
    CertificateStatus,
    body,
    families,
)
from fairlead_wire.identity.certificate import Certificate


def test_it_asks_when_the_hub_said() -> None:
    renewal = CertificateRenewal().welcomed(100.0, 50.0)
    assert (renewal.due, renewal.seconds_left(120.0), renewal.seconds_left(151.0)) == (150.0, 30.0, 0.0)
    asked = renewal.asking()
    assert asked.seconds_left(999.0) is None
    assert asked.issued(1000.0, 160.0).due == 1160.0


def test_a_hub_that_renews_nothing_is_not_asked() -> None:
    assert CertificateRenewal().welcomed(None, 50.0).seconds_left(1e9) is None
    assert CertificateRenewal().welcomed(1.0, 50.0).asking().issued(None, 60.0).due is None


def test_without_a_session_nothing_is_asked() -> None:
    ended = CertificateRenewal().welcomed(100.0, 50.0).ended()
    assert ended.seconds_left(1e9) is None
    assert ended.welcomed(10.0, 60.0).due == 70.0


@given(draw=st.floats(0, 1, exclude_max=True), asked=st.one_of(st.none(), st.floats(0, 1e9)))
def test_pauses_double_up_to_an_hour(draw: float, asked: float | None) -> None:
    renewal, before = CertificateRenewal().welcomed(0.0, 0.0), 0.0
    for _ in range(40):
        renewal = renewal.asking().failed("signer_unavailable", "away", 1000.0, draw, retry_after=asked)
        assert renewal.due is not None
        pause = renewal.due - 1000.0
        assert RETRY_SECONDS_MIN / 2 <= pause <= RETRY_SECONDS_MAX and pause >= before
        before = pause
    assert renewal.failures == 40 and renewal.code == "signer_unavailable"
    assert before >= RETRY_SECONDS_MAX / 2


def test_a_pause_outlives_the_session_and_ends_with_success() -> None:
    """A link that goes up and down does not make it ask more often."""
    failed = CertificateRenewal().welcomed(0.0, 0.0).asking().failed("csr_key", "no", 10.0, 0.0, retry_after=600.0)
    again = failed.ended().welcomed(0.0, 20.0)
    assert (again.due, again.failures) == (610.0, 1)
    assert again.asking().issued(50.0, 700.0) == CertificateRenewal(due=750.0)


def test_another_authority_brings_a_renewal_forward_and_never_back() -> None:
    """What is asked already, or was refused and pauses, goes on as it is."""
    due = CertificateRenewal().welcomed(1000.0, 0.0)
    assert due.hastened(50.0, 100.0).due == 150.0
    assert due.hastened(5000.0, 100.0).due == 1000.0
    assert CertificateRenewal().welcomed(None, 0.0).hastened(50.0, 100.0).due == 150.0, "this hub signs now"
    asked = due.asking()
    assert asked.hastened(50.0, 100.0) == asked
    failed = asked.failed("busy", "later", 100.0, 0.5)
    assert failed.hastened(0.0, 100.0) == failed


# ---- what the agent says of its certificate -------------------------------------------------------


OWN = Certificate(
    common_name="shop-1",
    names=(),
    issuer="edges",
    not_before=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
    not_after=datetime.datetime(2027, 1, 30, 12, tzinfo=datetime.UTC),
    serial="a1",
)
FAILED = CertificateRenewal().welcomed(0.0, 0.0).failed("signer_unavailable", "away", 0.0, 0.0)


@pytest.mark.parametrize(
    ("renewal", "state"),
    [
        (None, "off"),
        (CertificateRenewal(), "off"),
        (CertificateRenewal(due=5.0), "due"),
        (CertificateRenewal(due=5.0, asked=True), "asked"),
        (FAILED, "failing"),
    ],
)
def test_the_state_of_the_renewal_is_one_word(renewal: CertificateRenewal | None, state: str) -> None:
    found = body(CertificateStatus(certificate=OWN, renewal=renewal, renewal_in_seconds=5.04))
    assert found["renewal"]["state"] == state
    assert (found["serial"], found["issuer"], found["expires"]) == ("a1", "edges", "2027-01-30T12:00:00Z")


def test_what_failed_is_said_and_counted() -> None:
    status = CertificateStatus(
        certificate=None, renewal=FAILED, renewal_in_seconds=None, distrust="1970", counters={"failed_clock": 2}
    )
    found = body(status)
    assert (found["renewal"]["code"], found["renewal"]["reason"]) == ("signer_unavailable", "away")
    assert (found["expires"], found["clockDistrusted"]) == (None, "1970")
    samples = {family.name: family.samples for family in families(status)}
    assert samples["fairlead_edge_identity_events_total"] == {("failed_clock",): 2.0}
    assert samples["fairlead_edge_renewal_failures"] == {(): 1} and samples["fairlead_edge_clock_distrusted"] == {(): 1}
