"""Which nodes that were away too long get a new certificate by themselves, and which wait for a person."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_hub.identity.late_renewal import DAY_SECONDS, Claim, KnownNode, judge

ISSUED, ENDED = 1e9, 1e9 + 90 * DAY_SECONDS
CLAIM = Claim(node="shop-1", serial="a1", not_before=ISSUED, not_after=ENDED, store_epoch=77)
KNOWN = KnownNode(exists=True, newest_issued=ISSUED, store_epoch=77)


def code(claim: Claim = CLAIM, known: KnownNode = KNOWN, *, days: float = 30, late_days: int = 90) -> str:
    refusal = judge(claim, known, now=ENDED + days * DAY_SECONDS, late_days=late_days)
    return refusal.code if refusal is not None else ""


@pytest.mark.parametrize(("days", "expected"), [(1, ""), (30, ""), (89, ""), (91, "too_late")])
def test_within_its_grace_it_gets_one(days: float, expected: str) -> None:
    assert code(days=days) == expected


def test_it_can_be_off() -> None:
    assert code(late_days=0) == "late_off"


def test_a_revoked_certificate_is_not_renewed() -> None:
    """Neither does approval help."""
    assert code(known=msgspec.structs.replace(KNOWN, revoked="a person did", approved="anything")) == "revoked"


def test_there_must_be_a_node() -> None:
    assert code(known=KnownNode(exists=False)) == "node_unknown"


def test_one_issued_in_its_last_session_counts_although_none_was_opened_with_it() -> None:
    """A session goes on with the certificate it was opened with: the next one may end in a drawer."""
    assert code(known=msgspec.structs.replace(KNOWN, newest_issued=ISSUED - 60 * DAY_SECONDS)) == ""


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"newest_issued": ISSUED + 5 * DAY_SECONDS}, "not_newest"),
        ({"store_epoch": 78}, "held"),
        ({"store_epoch": 0}, "held"),
        ({"newest_issued": None}, "held"),
        ({"connected": True}, "held"),
        ({"recreated": True}, "held"),
        ({"given_to": "key-1"}, "held"),
    ],
)
def test_what_looks_like_a_copy_waits_for_a_person(known: dict[str, float | None], expected: str) -> None:
    """Who approves exactly this lets it in, and nothing else."""
    state = msgspec.structs.replace(KNOWN, **known)
    refusal = judge(CLAIM, state, now=ENDED, late_days=90)
    assert refusal is not None and (refusal.code, bool(refusal.held)) == (expected, True)
    assert "fairlead node approve shop-1" in refusal.reason
    approved = msgspec.structs.replace(state, approved=refusal.held)
    assert judge(CLAIM, approved, now=ENDED, late_days=90) is None
    for other in ({"serial": "b2"}, {"store_epoch": 5}):
        assert judge(msgspec.structs.replace(CLAIM, **other), approved, now=ENDED, late_days=90) is not None


def test_an_approval_ends_with_the_next_certificate_that_is_used() -> None:
    """Else the copy that it was not meant for could come with the same claim."""
    refusal = judge(CLAIM, msgspec.structs.replace(KNOWN, store_epoch=5), now=ENDED, late_days=90)
    assert refusal is not None
    later = KnownNode(exists=True, newest_issued=ENDED, store_epoch=99, approved=refusal.held)
    assert judge(CLAIM, later, now=ENDED, late_days=90) is not None
