"""What certificates say of themselves, read from real ones, and from what only looks like one."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.joining.pki import Authority

from fairlead_wire.identity.certificate import DER_BYTES_MAX, Certificate, day, ends_soon, read, unfit

NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


def certificate(*, before: datetime.timedelta, after: datetime.timedelta, name: str = "edge-1") -> Certificate:
    return Certificate(common_name=name, names=(), issuer="a", not_before=NOW + before, not_after=NOW + after)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "our authority")


def test_a_real_one_is_read(authority: Authority) -> None:
    """Names of both kinds, issuer and times, as the library that made it says."""
    path = authority.issue("hub", hosts=("hub.example", "10.0.0.1", "::1")).certificate
    found = read(path.read_bytes())
    truth = x509.load_pem_x509_certificate(path.read_bytes())
    assert (found.name, found.issuer, found.names) == ("hub", "our authority", ("hub.example", "10.0.0.1", "::1"))
    assert (found.not_before, found.not_after) == (truth.not_valid_before_utc, truth.not_valid_after_utc)
    assert str(found) == (
        f"the certificate of hub (issued by our authority, for hub.example, 10.0.0.1, ::1, "
        f"valid until {day(truth.not_valid_after_utc)})"
    )
    assert found.serial == f"{truth.serial_number:x}"
    assert read(truth.public_bytes(serialization.Encoding.DER)) == found


def test_names_and_times_of_other_forms_are_read(authority: Authority) -> None:
    """Text around the PEM, letters beyond ASCII, no alternative names, a time beyond 2049."""
    path = authority.issue("ä b", valid=datetime.timedelta(days=20_000)).certificate
    found = read(b"some text\n" + path.read_bytes())
    assert (found.name, found.issuer, found.names) == ("ä b", "our authority", ())
    assert found.not_after.year > 2049


def test_dates_and_name_are_judged() -> None:
    days = datetime.timedelta
    good = certificate(before=-days(days=1), after=days(days=1))
    assert unfit(good, NOW) == unfit(good, NOW, "edge-1") == ""
    assert unfit(good, NOW, "edge-2") == "is the one of edge-1, not of edge-2"
    late = certificate(before=-days(days=2), after=-days(days=1))
    assert unfit(late, NOW).startswith("expired on 2026-11-19 12:00 UTC, and it is 2026-11-20 12:00 UTC here")
    early = certificate(before=days(days=1), after=days(days=2))
    assert "is not valid before 2026-11-21 12:00 UTC" in unfit(early, NOW) and "clock" in unfit(early, NOW)


def test_the_end_of_a_certificate_is_announced_in_time() -> None:
    days = datetime.timedelta
    assert ends_soon(certificate(before=-days(days=385), after=days(days=13)), NOW)
    assert not ends_soon(certificate(before=-days(days=383), after=days(days=15)), NOW)
    assert not ends_soon(certificate(before=-days(hours=1), after=days(hours=1)), NOW)
    assert ends_soon(certificate(before=-days(hours=23), after=days(hours=1)), NOW)


@pytest.mark.parametrize("content", [b"", b"0", b"\x30\x84\xff\xff", b"x" * (DER_BYTES_MAX + 1), b"\x30\x80" * 99])
def test_what_is_none_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        read(content)


@pytest.fixture(scope="module")
def der(authority: Authority) -> bytes:
    pem = authority.issue("damaged", hosts=("hub.example", "10.0.0.1", "::1")).certificate.read_bytes()
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_damaged_ones_never_raise_anything_else(der: bytes, data: st.DataObject) -> None:
    content = bytearray(der)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    try:
        assert str(read(bytes(content[:cut])))
    except ValueError:
        pass
