"""Order of resourceVersions."""

import pytest

from fairlead_wire.objects.version import is_comparable, is_newer


@pytest.mark.parametrize(
    ("candidate", "than", "expected"),
    [
        ("10", "9", True), ("9", "10", False), ("10", "10", False),
        ("1", "", True), ("", "1", False), ("", "", False),
        ("7", "foreign", True), ("foreign", "7", False), ("b", "a", False),
        ("18446744073709551616", "18446744073709551615", True),
        ("9" * 65, "1", False), ("٣", "1", False), ("007", "1", False), ("-5", "1", False),
    ],
)  # fmt: skip
def test_newer(candidate, than, expected):
    """Decimal numbers compare as numbers; garbage is never newer and never raises."""
    assert is_newer(candidate, than) is expected


def test_zero_is_a_version():
    """ "0" is the one number that may start with a zero."""
    assert is_comparable("0")
    assert not is_comparable("00")
