"""Addresses of Connect servers and masters."""

from __future__ import annotations

import pytest

from fairlead_ingest import spark_cluster


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("sc://spark", ("spark", 15002)),
        ("sc://spark:7", ("spark", 7)),
        ("sc://[::1]:7/;use_ssl=true;user_id=ingest", ("::1", 7)),
    ],
)
def test_a_server_is_named_by_host_and_port(remote: str, expected: tuple[str, int]) -> None:
    """The port may be left out."""
    assert spark_cluster.check(remote) == remote
    assert spark_cluster.address(remote) == expected


@pytest.mark.parametrize(
    ("remote", "reason"),
    [
        ("spark://h:7077", "sc://host:port"),
        ("sc://", "sc://host:port"),
        ("sc://user:secret@h:1", "sc://host:port"),
        ("sc://h:99999", "port"),
        ("sc://h:1?x", "sc://host:port"),
        ("sc://h:1/;token=secret", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("sc://h:1/;colour=red", "colour"),
        ("sc://h:1/;use_ssl", "use_ssl"),
    ],
)
def test_a_wrong_address_says_how_it_is_written(remote: str, reason: str) -> None:
    """A token would be in every log line that names the server."""
    with pytest.raises(ValueError, match=reason) as found:
        spark_cluster.check(remote)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", []),
        ("k8s://https://h:6443", []),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://a", []),
        ("spark://a:x", []),
    ],
)
def test_masters_are_listed_where_they_can_be(master: str, expected: list[tuple[str, int]]) -> None:
    """What is not understood is left to Spark."""
    assert spark_cluster.standalone_masters(master) == expected
