"""What a person wrote into ``EdgeNode.spec.revoked``: read, compared, and read again."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.identity import revocation
from fairlead_hub.identity.revocation import FOR_EVER, Revocation, read


def revoked(before, reason="r"):
    return read({"revoked": {"before": before, "reason": reason}})


@pytest.mark.parametrize(
    ("written", "before"),
    [
        ("2026-11-23T00:05:00Z", "2026-11-23T00:05:00Z"),
        ("2026-11-23T01:05:00+01:00", "2026-11-23T00:05:00Z"),
        ("2026-11-23T00:05:00.001Z", "2026-11-23T00:05:01Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_utc_and_whole_seconds(written, before):
    """Part of a second counts as one: a certificate from the very moment is not yet a new one."""
    assert revoked(written) == Revocation(before=before, reason="r")


@pytest.mark.parametrize("before", ["", "soon", None, 5, "2026-11-23", "2026-11-23T00:05:00", "9999-12-31T23:59:59.5Z"])
def test_what_is_no_time_revokes_everything(before):
    """A mistake must not open what was meant to be shut."""
    found = revoked(before)
    assert found.before == FOR_EVER and found.covers("2999-01-01T00:00:00Z") and "is not a time" in found.why("n")
    assert "by mistake: fairlead node unrevoke n, and restart the agent" in found.why("n")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("replaced by token abcdefgh27", "join it with a token for another name"),
        ("replaced by token abcdefgh27; stolen on Tuesday", "join it with a token for another name"),
        ("node deleted", "fairlead token create --node n --create-node, then fairlead edge join --force on the device"),
        ("replaced by token abcdefgh27; node deleted", "fairlead token create --node n --create-node"),
    ],
)
def test_a_replaced_or_deleted_device_is_not_told_how_to_return(reason, advice):
    """The command for a mistake would let the old device in again, in place of the new one."""
    said = revoked("2026-11-23T00:05:00Z", reason).why("n")
    assert f"({reason})" in said and advice in said and "unrevoke" not in said and "mistake" not in said


def test_a_replacement_is_recognized():
    assert revoked("2026-11-23T00:05:00Z", revocation.replaced("abcdefgh27", "y" * 300)).replaced_by == "abcdefgh27"
    assert [revoked("2026-11-23T00:05:00Z", each).replaced_by for each in ("", "not replaced by token abcdefgh27")] == [
        "",
        "",
    ]


def test_what_is_no_object_revokes_everything_too():
    assert read({"revoked": "yes"}) == Revocation(before=FOR_EVER, reason="spec.revoked cannot be read")
    assert read({}) is None and read({"revoked": None}) is None


def test_only_earlier_certificates_are_covered():
    """One issued in that very second is not: the hub begins new ones there."""
    found = revoked("2026-11-23T00:05:00Z")
    assert found.covers("2026-11-23T00:04:59Z") and not found.covers("2026-11-23T00:05:00Z")
    assert found.moment == datetime.datetime(2026, 11, 23, 0, 5, tzinfo=datetime.UTC)


def test_reasons_are_one_short_line():
    found = revoked("2026-11-23T00:05:00Z", "  lost\n on   the way " + "x" * 1000)
    assert found.reason.startswith("lost on the way x") and len(found.reason) == revocation.REASON_CHARS_MAX
    assert revoked("2026-11-23T00:05:00Z", 7).reason == ""


@given(st.datetimes(timezones=st.just(datetime.UTC)), st.datetimes(timezones=st.just(datetime.UTC)))
def test_text_compares_as_time(before, issued):
    """Whatever the moments: what is covered is what is earlier, seconds rounded up."""
    issued = issued.replace(microsecond=0)
    found = revoked(before.isoformat())
    text = f"{issued:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")
    if found.before != FOR_EVER:
        assert found.covers(text) == (issued < before)
        assert read(revocation.spec(found)) == found
