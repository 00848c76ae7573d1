"""What the settings of Cassandra accept."""

from __future__ import annotations

import pytest

from fairlead_messaging.server.settings import CassandraModel, contact_point


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node", ("node", 9042)),
        ("10.0.0.1:19042", ("10.0.0.1", 19042)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 9042)),
        ("fe80::1", ("fe80::1", 9042)),
    ],
)
def test_contact_points(text: str, found: tuple[str, int]) -> None:
    """With or without a port."""
    assert contact_point(text) == found


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:0", "a:70000", "[::1", "[::1]x", "a:b"])
def test_what_is_no_contact_point(text: str) -> None:
    """Is refused with what it must be."""
    with pytest.raises(ValueError, match="host or host:port"):
        contact_point(text)


def test_consistency_in_any_case() -> None:
    """As drivers take it."""
    assert CassandraModel(consistency="local_quorum").consistency == "LOCAL_QUORUM"
