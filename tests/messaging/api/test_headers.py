"""Names of headers."""

from __future__ import annotations

from fairlead_messaging.api import headers


def test_each_header_has_a_meaning() -> None:
    """For the OpenAPI document."""
    names = {value for name, value in vars(headers).items() if name.isupper() and str(value)[:1].isupper()}
    assert names == set(headers.MEANINGS)
