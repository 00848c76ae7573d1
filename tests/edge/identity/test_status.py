"""What the agent says of its certificate."""

from __future__ import annotations

import datetime

import pytest

from fairlead_edge.identity.renewal import CertificateRenewal
from fairlead_edge.identity.status import CertificateStatus, body, families
from fairlead_wire.identity.certificate import Certificate

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
